// Attention that reads old keys and values before it waits for the kernel that stores the newest ones. Only
// sm_90 has it in its plans (gpu/key_value_cache.cpp); here other GPUs run its kernel, too. Its waiting is
// what puts the newest keys and values into the cache.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu_compare.h"
#include "hearth/hearth.h"
#include "hearth/kernel.h"
#include "tensor/key_value_cache.h"

namespace hearth {
namespace {

#include "gpu/kernels/key_value_cache_arguments.h"

constexpr int threads = 256, heads = 6, groups = 3, page = 8, pages = 40, sequences = 2;

class GpuEarlyAttention : public GpuComparison {
 protected:
  static GpuKernel kernel(Device device, int features) {
    return compile_kernel(
        fmt::format(
            "#include \"key_value_cache.h\"\n"
            "KERNEL_OF({0}) void attend_early(CachedAttentionShape shape, const f32* q, f16* keys, f16* "
            "values,\n"
            "    const f16* newest_keys, const f16* newest_values, const i64* slots, const i64* sequences,\n"
            "    const i64* positions, const i64* table, f32* out, f32* scratch, u32* arrived, u64* word) "
            "{{\n"
            "  const Fault fault{{word, 1}};\n"
            "  const u32 split = blockIdx.x / (u32)(shape.queries * {1}), block = blockIdx.x % "
            "(u32)(shape.queries * {1});\n"
            "  const u32 query = block / {1}, group = block % {1};\n"
            "  const auto wait = [&] {{\n"
            "    const cached::Seen seen(shape, positions[query]);\n"
            "    if ((int)split != seen.splits - 1) return;  // it does not look there\n"
            "    const i64 place = (slots[query] * {1} + group) * {2}, from = (query * {1} + group) * {2};\n"
            "    for (u32 i = threadIdx.x; i < {2}; i += blockDim.x) {{\n"
            "      keys[place + i] = newest_keys[from + i];\n"
            "      values[place + i] = newest_values[from + i];\n"
            "    }}\n"
            "    device_fence();\n"
            "    barrier();\n"
            "  }};\n"
            "  cached::attend<{0}, f32, f16, 2, {2}, false, false, true, true, 0>(shape, q, keys, values, "
            "nullptr,\n"
            "      nullptr, nullptr, sequences, positions, table, out, nullptr, scratch, arrived, fault, "
            "wait);\n"
            "}}\n",
            threads, groups, features),
        "attend_early", device);
  }

  // Queries of sequences 1 and 0 (or of 1 alone) at these positions.
  static void check(int features, const std::vector<std::int64_t>& positions, int splits, int window) {
    SCOPED_TRACE(fmt::format("{} features, {} keys, {} splits, window {}", features, positions[0] + 1, splits,
                             window));
    const auto queries = static_cast<std::int64_t>(positions.size());
    const std::int64_t slots = sequences * pages * page;
    std::vector<std::int64_t> owners, table, newest;
    for (std::int64_t i = 0; i < sequences * pages; ++i) table.push_back((i * 7 + 3) % (sequences * pages));
    for (std::int64_t i = 0; i < queries; ++i) {
      owners.push_back(1 - i);
      const std::int64_t at = positions[static_cast<std::size_t>(i)];
      newest.push_back(table[static_cast<std::size_t>((1 - i) * pages + at / page)] * page + at % page);
    }
    const Tensor q = randn({queries, heads, features}).eval();
    const Tensor keys = randn({slots, groups, features}).to(DType::f16).eval(),
                 values = randn({slots, groups, features}).to(DType::f16).eval();
    const Tensor at = tensor(newest), of = tensor(owners), where = tensor(positions),
                 pages_of = tensor(table).reshape({sequences, pages}).eval();
    const Tensor expected = cached_attention(q, keys, values, of, where, pages_of,
                                             {.scale = 0.2, .window = window, .page = page});
    // Until it waits, there are no numbers in the newest places.
    const Tensor nothing = full({queries, groups, features}, NAN, DType::f16);
    const Tensor old_keys = store_rows(keys, at, nothing).eval(),
                 old_values = store_rows(values, at, nothing).eval();
    const CachedAttentionShape shape{.queries = static_cast<int>(queries),
                                     .heads = heads,
                                     .groups = groups,
                                     .features = features,
                                     .splits = splits,
                                     .least_keys = 32,
                                     .page = page,
                                     .pages = pages,
                                     .sequences = sequences,
                                     .window = window,
                                     .scale = 0.2f,
                                     .soft_cap = 0,
                                     .slots = slots,
                                     .q_query = heads * features,
                                     .q_head = features,
                                     .q_feature = 1,
                                     .sequence_stride = 1,
                                     .position_stride = 1};
    for (const Device device : gpus()) {
      const auto there = [&](const Tensor& x) { return x.to(device).eval(); };
      const Tensor out = full({queries, heads, features}, NAN).to(device).eval();
      const Tensor scratch = full({queries * heads * splits * (features + 2)}, NAN).to(device).eval();
      const Tensor arrived = zeros({64}, DType::i32).to(device).eval(),
                   word = zeros({1}, DType::i64).to(device).eval();
      const auto blocks = static_cast<unsigned>(queries * groups * splits + 1);  // and one without keys
      kernel(device, features)
          .launch({.blocks = {blocks}, .threads = {threads}}, shape, there(q), there(old_keys),
                  there(old_values), there(take(keys, at)), there(take(values, at)), there(at), there(of),
                  there(where), there(pages_of), out, scratch, arrived, word);
      EXPECT_LT(max(abs(out.to(Device{}) - expected)).item<float>(), 2e-3f) << to_string(device);
      EXPECT_EQ(word.to(Device{}).item<std::int64_t>(), 0);
    }
  }
};

TEST_F(GpuEarlyAttention, SeesTheNewestKey) {
  for (const int features : {64, 128})
    for (const std::int64_t last : {0, 1, 31, 32, 63, 64, 65, 127, 200}) check(features, {last}, 4, 0);
}
TEST_F(GpuEarlyAttention, OfTwoSequences) {
  check(64, {40, 3}, 2, 0);
  check(80, {70, 130}, 3, 0);
}
TEST_F(GpuEarlyAttention, InAWindow) {
  check(64, {100}, 3, 40);
  check(64, {20}, 3, 40);
}
TEST_F(GpuEarlyAttention, OfMoreKeysThanItHasAtOnce) {
  check(64, {319}, 1, 0);
  check(128, {310}, 2, 0);
}

}  // namespace
}  // namespace hearth
