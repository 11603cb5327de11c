// Attention that reads old keys and values before it waits for the kernel that stores the newest ones, and
// attention whose keys and values are on their way through shared memory. Only sm_90 has them in its plans
// (gpu/key_value_cache.cpp); here other GPUs run their kernel, too. Its waiting is what puts the newest keys
// and values into the cache.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu_compare.h"
#include "hearth/hearth.h"
#include "hearth/kernel.h"
#include "rounded_rows.h"
#include "tensor/key_value_cache.h"

namespace hearth {
namespace {

#include "gpu/kernels/key_value_cache_arguments.h"

constexpr int heads = 6, groups = 3, page = 8, pages = 40, sequences = 2;

// What a kernel is compiled for.
struct Kind {
  int features = 64;
  bool bytes = false;  // keys and values, with scales; else f16
  bool sinks = false;
  int run = 0;     // of results that are rounded, too; 0: they are not
  int stages = 0;  // of keys and values on their way through shared memory, not early then; of f16
  int threads() const { return stages > 0 ? 128 : 256; }
  unsigned shared_bytes() const { return static_cast<unsigned>(stages * 4 * 2 * 16 * threads()); }
};

class GpuEarlyAttention : public GpuComparison {
 protected:
  static GpuKernel kernel(Device device, const Kind& kind) {
    return compile_kernel(
        fmt::format(
            "#include \"key_value_cache.h\"\n"
            "KERNEL_OF({0}) void attend_early(CachedAttentionShape shape, const f32* q, {3}* keys, {3}* "
            "values,\n"
            "    f16* key_scales, f16* value_scales, const {3}* newest_keys, const {3}* newest_values,\n"
            "    const f16* newest_key_scales, const f16* newest_value_scales, const f32* sinks,\n"
            "    const i64* slots, const i64* sequences, const i64* positions, const i64* table, f32* out,\n"
            "    u8* rounded_rows, f32* scratch, u32* arrived, u64* word) {{\n"
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
            "    if ({4} && threadIdx.x < {2} / 32) {{\n"
            "      key_scales[place / 32 + threadIdx.x] = newest_key_scales[from / 32 + threadIdx.x];\n"
            "      value_scales[place / 32 + threadIdx.x] = newest_value_scales[from / 32 + threadIdx.x];\n"
            "    }}\n"
            "    device_fence();\n"
            "    barrier();\n"
            "  }};\n"
            "  cached::attend<{0}, f32, {3}, 2, {2}, false, {5}, true, {7}, {6}, {8}>(shape, q, keys, "
            "values, "
            "key_scales,\n"
            "      value_scales, sinks, sequences, positions, table, out, rounded_rows, scratch, arrived, "
            "fault, wait);\n"
            "}}\n",
            kind.threads(), groups, kind.features, kind.bytes ? "i8" : "f16", kind.bytes, kind.sinks,
            kind.run, kind.stages == 0, kind.stages),
        "attend_early", device);
  }

  // Keys or values of all slots; what is in the newest of them is there later only.
  struct Cache {
    ScaledBytes all, old, newest;  // without scales where they are of f16

    Cache(const Kind& kind, std::int64_t slots, const Tensor& at) {
      const Tensor numbers = randn({slots, groups, kind.features}).eval();
      all = kind.bytes ? to_scaled_bytes(numbers) : ScaledBytes{numbers.to(DType::f16), {}};
      // Until it waits, there are no numbers in the newest places.
      const auto without = [&](const Tensor& x) {
        const Tensor nothing = full({at.size(0), x.size(1), x.size(2)}, NAN, x.dtype());
        return store_rows(x, at, nothing).eval();
      };
      newest = {take(all.bytes, at).eval(), {}};
      if (kind.bytes) {
        old = {all.bytes, without(all.scales)};
        newest.scales = take(all.scales, at).eval();
      } else {
        old = {without(all.bytes), {}};
      }
    }
  };

  // Queries of sequences 1 and 0 (or of 1 alone) at these positions.
  static void check(const Kind& kind, const std::vector<std::int64_t>& positions, int splits, int window) {
    SCOPED_TRACE(fmt::format("{} features{}{}, runs of {}, {} stages, {} keys, {} splits, window {}",
                             kind.features, kind.bytes ? ", bytes" : "", kind.sinks ? ", sinks" : "",
                             kind.run, kind.stages, positions[0] + 1, splits, window));
    const auto queries = static_cast<std::int64_t>(positions.size());
    const std::int64_t slots = sequences * pages * page, features = kind.features;
    std::vector<std::int64_t> owners, table, newest;
    for (std::int64_t i = 0; i < sequences * pages; ++i) table.push_back((i * 7 + 3) % (sequences * pages));
    for (std::int64_t i = 0; i < queries; ++i) {
      owners.push_back(1 - i);
      const std::int64_t at = positions[static_cast<std::size_t>(i)];
      newest.push_back(table[static_cast<std::size_t>((1 - i) * pages + at / page)] * page + at % page);
    }
    const Tensor q = randn({queries, heads, features}).eval(), sinks = randn({heads}).eval();
    const Tensor at = tensor(newest), of = tensor(owners), where = tensor(positions),
                 pages_of = tensor(table).reshape({sequences, pages}).eval();
    const Cache keys(kind, slots, at), values(kind, slots, at);
    CachedAttentionOptions options{.scale = 0.2, .window = window, .page = page};
    if (kind.sinks) options.sinks = sinks;
    const Tensor expected =
        kind.bytes ? cached_attention(q, keys.all, values.all, of, where, pages_of, options)
                   : cached_attention(q, keys.all.bytes, values.all.bytes, of, where, pages_of, options);
    const CachedAttentionShape shape{.queries = static_cast<int>(queries),
                                     .heads = heads,
                                     .groups = groups,
                                     .features = kind.features,
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
      const auto there = [&](const Tensor& x) { return (x.defined() ? x : q).to(device).eval(); };
      const std::int64_t elements = queries * heads * features;
      const Tensor out = full({queries, heads, features}, NAN).to(device).eval();
      const Tensor rounded =
          zeros({elements + (kind.run > 0 ? elements / kind.run * 8 : 0)}, DType::u8).to(device).eval();
      const Tensor scratch = full({queries * heads * splits * (features + 2)}, NAN).to(device).eval();
      const Tensor arrived = zeros({64}, DType::i32).to(device).eval(),
                   word = zeros({1}, DType::i64).to(device).eval();
      const auto blocks = static_cast<unsigned>(queries * groups * splits + 1);  // and one without keys
      kernel(device, kind)
          .launch({.blocks = {blocks},
                   .threads = {static_cast<unsigned>(kind.threads())},
                   .shared_bytes = kind.shared_bytes()},
                  shape, there(q), there(keys.old.bytes), there(values.old.bytes), there(keys.old.scales),
                  there(values.old.scales), there(keys.newest.bytes), there(values.newest.bytes),
                  there(keys.newest.scales), there(values.newest.scales), there(sinks), there(at), there(of),
                  there(where), there(pages_of), out, rounded, scratch, arrived, word);
      const Tensor result = out.to(Device{}).eval();
      EXPECT_LT(max(abs(result - expected)).item<float>(), 2e-3f) << to_string(device);
      EXPECT_EQ(word.to(Device{}).item<std::int64_t>(), 0);
      if (kind.run == 0) continue;
      const auto stored = rounded.to(Device{}).to_vector<std::uint8_t>();
      const auto count = static_cast<std::size_t>(elements);
      Rounded(stored.data(), count, static_cast<std::size_t>(kind.run))
          .expect_of(result.to_vector<float>(), std::vector<float>(count, 1.0f));
    }
  }
  static void check(int features, const std::vector<std::int64_t>& positions, int splits, int window) {
    check({.features = features}, positions, splits, window);
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

TEST_F(GpuEarlyAttention, OfBytes) {
  const Kind bytes{.features = 64, .bytes = true};
  for (const std::int64_t last : {0, 31, 64, 200}) check(bytes, {last}, 4, 0);
  check(bytes, {70, 130}, 3, 0);
  check({.features = 128, .bytes = true}, {310}, 2, 0);
}
TEST_F(GpuEarlyAttention, WithSinks) {
  for (const std::int64_t last : {0, 200}) check({.sinks = true}, {last}, 4, 0);
}
// That of batches, whose keys and values are on their way a turn or two ahead: as many turns as there are
// stages, fewer, one more, and many.
TEST_F(GpuEarlyAttention, InStages) {
  for (const int stages : {1, 2}) {
    for (const std::int64_t last : {0, 15, 16, 31, 32, 63, 64, 97, 310})
      check({.features = 64, .stages = stages}, {last}, 1, 0);
    check({.features = 128, .stages = stages}, {200, 7}, 1, 0);
    check({.features = 80, .sinks = true, .stages = stages}, {130, 319}, 3, 0);
    check({.features = 64, .stages = stages}, {100}, 2, 40);
  }
}
TEST_F(GpuEarlyAttention, ThatIsRounded) {
  for (const int run : {16, 32})
    for (const std::int64_t last : {5, 200}) check({.bytes = run == 32, .run = run}, {last}, 4, 0);
}

}  // namespace
}  // namespace hearth
