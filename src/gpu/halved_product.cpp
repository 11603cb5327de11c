#include "gpu/halved_product.h"

#include <fmt/format.h>

#include <algorithm>

namespace hearth::gpu {
namespace {

constexpr unsigned halving_threads = 1024;

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void HalvedProduct::halves(std::int64_t rows, std::int64_t depth) {
  rows_ = rows;
  shape_.a_row = depth;
  shape_.a_k = 1;
}

std::size_t HalvedProduct::scales_at() const {
  return rounded(static_cast<std::size_t>(rows_ * shape_.a_row) * 2);
}
std::size_t HalvedProduct::halved_bytes() const {
  return scales_at() + rounded(static_cast<std::size_t>(shape_.rows) * sizeof(float));
}

HalvedProduct::Halved HalvedProduct::halve(const KernelArguments& arguments) const {
  const auto rows = static_cast<std::uint32_t>(shape_.rows), depth = static_cast<std::uint32_t>(shape_.depth),
             to_rows = static_cast<std::uint32_t>(rows_), to_depth = static_cast<std::uint32_t>(shape_.a_row);
  const Halved to{arguments.scratch, static_cast<char*>(arguments.scratch) + scales_at()};
  Arguments values;
  values.add(arguments.inputs[0]);
  values.add(product_.a.row_stride);
  values.add(product_.a.k_stride);
  values.add(rows);
  values.add(depth);
  add_norm(values, arguments);
  values.add(to.numbers);
  values.add(to_rows);
  values.add(to_depth);
  values.add(to.scales);
  device_.launch(halve_, {.x = std::min(to_rows, 65535u), .threads = halving_threads}, values);
  return to;
}

std::string HalvedProduct::halve_text(std::string_view place) const {
  return fmt::format(
      "KERNEL_OF({0}) void halve_activations(const {1}* x, i64 row_stride, i64 k_stride, u32 rows, u32 "
      "depth,\n"
      "    {2}f16* out, u32 to_rows, u32 to_depth, f32* scales) {{\n"
      "  after_previous();\n"
      "  halve_rows(x, row_stride, k_stride, rows, depth, {3}, out, to_rows, to_depth, scales,\n"
      "             {4}{{}});\n}}\n",
      halving_threads, storage_type(product_.a.dtype),
      epsilon_ ? "const f32* norm_weight, f32 epsilon, " : "",
      epsilon_ ? "RowNorm{norm_weight, epsilon}" : "NoNorm{}", place);
}

std::string HalvedProduct::scaled_finish() const {
  return fmt::format("Scaled<Finish>{{Finish{{GemmStack{{}}, shape.rows, shape.columns{}}}, scales}}",
                     finish_.members);
}

std::uint64_t HalvedProduct::divide(int rows, int columns) {
  shape_.row_tiles = static_cast<unsigned>((shape_.rows + rows - 1) / rows);
  shape_.column_tiles = static_cast<unsigned>((shape_.columns + columns - 1) / columns);
  return tiles();
}

}  // namespace hearth::gpu
