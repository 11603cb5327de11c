// What kernels of streamed products do with results, in tests.
#pragma once

namespace hearth {

// Stores them; of two rows of the weights left + 3 right.
inline constexpr const char* plain_results =
    "struct Plain {\n"
    "  f32* out;\n"
    "  u32 columns;\n"
    "  DEVICE void start(u64, u32) const {}\n"
    "  DEVICE void operator()(i64 row, i64 column, const Packet<f32, 1>& sum) const {\n"
    "    out[row * columns + column] = sum.element[0];\n"
    "  }\n"
    "  DEVICE void operator()(i64 row, i64 column, const gemm::Pair<f32, 1>& sums) const {\n"
    "    out[row * columns + column] = sums.left.element[0] + 3 * sums.right.element[0];\n"
    "  }\n"
    "};\n";

}  // namespace hearth
