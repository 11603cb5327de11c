// The cache of keys and values: rows stored in place, attention over pages against plain attention.
#include "tensor/key_value_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "expect_error.h"
#include "hearth/hearth.h"
#include "test_devices.h"

namespace hearth {
namespace {

Tensor indices(const std::vector<std::int64_t>& values, Device device) {
  return tensor<std::int64_t>(values).to(device);
}

TEST(StoreRows, ReplacesRowsThatAreNamed) {
  for (const Device device : tested_devices())
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32}) {
      const Tensor x = arange(0, 24).reshape({6, 2, 2}).to(dtype).to(device);
      const Tensor rows = (arange(0, 12).reshape({2, 2, 3}) + 100).to(dtype).to(device).permute({2, 0, 1});
      const Tensor result = store_rows(x, indices({4, -1, 0}, device), rows);
      const auto got = result.to(Device{}).to(DType::f64).to_vector<double>();
      for (std::int64_t i = 0; i < 24; ++i) {
        const std::int64_t row = i / 4, source = row == 4 ? 0 : 2;
        const double expected =
            row == 4 || row == 0 ? 100 + static_cast<double>(i % 4 * 3 + source) : static_cast<double>(i);
        EXPECT_EQ(got[static_cast<std::size_t>(i)], expected) << to_string(device) << " element " << i;
      }
    }
}

// Rows are moved in pieces as wide as their lengths, their steps and where they begin allow.
TEST(StoreRows, RowsOfAllWidths) {
  for (const Device device : tested_devices())
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8})
      for (const std::int64_t length : {1, 2, 3, 8, 12, 64})
        for (const std::int64_t offset : {0, 1, 4}) {
          const Tensor wide = (arange(0, 3 * (length + 4)) % 100).to(dtype).reshape({3, -1});
          const Tensor x = full({5, length}, 101, dtype), rows = narrow(wide, 1, offset, length);
          const Tensor result = store_rows(x.to(device), indices({3, -1, 1}, device),
                                           narrow(wide.to(device), 1, offset, length));
          const auto got = result.to(Device{}).to(DType::f64).to_vector<double>(),
                     of_rows = rows.to(DType::f64).to_vector<double>();
          for (std::int64_t i = 0; i < 5 * length; ++i) {
            const std::int64_t row = i / length, source = row == 3 ? 0 : 2;
            const double expected =
                row == 3 || row == 1 ? of_rows[static_cast<std::size_t>(source * length + i % length)] : 101;
            EXPECT_EQ(got[static_cast<std::size_t>(i)], expected)
                << to_string(device) << ' ' << dtype_name(dtype) << " element " << i << " of rows of "
                << length << " from " << offset;
          }
        }
}

// One at a time or several, as where they lie allows.
TEST(StoreRows, NumbersBecomeWhatTheRowsAre) {
  struct Part {
    std::int64_t width, begin, length;  // of what the rows are parts of; of the parts
  };
  for (const Device device : tested_devices())
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const auto& [width, begin, length] :
           {Part{10, 3, 5}, Part{16, 4, 8}, Part{8, 2, 4}, Part{8, 0, 6}}) {
        const DeviceScope here(device);
        manual_seed(3);
        const Tensor wide = randn({3, 2, width}).eval(), values = narrow(wide, 2, begin, length);
        const Tensor found =
            store_rows(zeros({6, 2, length}, dtype), tensor<std::int64_t>({4, -1, 0}), values);
        EXPECT_EQ(found.dtype(), dtype);
        const auto got = found.to(DType::f32).to_vector<float>(),
                   rounded = values.to(dtype).to(DType::f32).to_vector<float>();
        const auto row = static_cast<std::size_t>(2 * length);
        for (std::size_t i = 0; i < row; ++i) {
          EXPECT_EQ(got[4 * row + i], rounded[i]);
          EXPECT_EQ(got[row + i], 0);
          EXPECT_EQ(got[i], rounded[2 * row + i]);
        }
      }
}

TEST(StoreRows, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({4, 3});
  test::expect_error<ShapeError>(
      [&] {
        store_rows(x, tensor<std::int64_t>({0, 1}), zeros({2, 2}));
      },
      {"[store_rows] values (2, 2) do not fit 2 rows of (4, 3)"});
  test::expect_error<DTypeError>(
      [&] {
        store_rows(x, zeros({2}), zeros({2, 3}));
      },
      {"[store_rows] indices must be i64, got f32"});
  for (const Device device : tested_devices())
    EXPECT_THROW(
        store_rows(x.to(device), indices({4}, device), zeros({1, 3}).to(device)).eval().to(Device{}).eval(),
        IndexError);
}

TEST(StoreRows, CompiledItTakesOverTheMemory) {
  for (const Device device : tested_devices()) {
    Tensor cache = zeros({64, 8}).to(device).eval();
    Compiled step = compile([&](const std::vector<Tensor>& in) {
      cache.assign(store_rows(cache, in[0], in[1]));
      return std::vector<Tensor>{sum(cache)};
    });
    for (int i = 0; i < 5; ++i) {
      const Tensor total = step({indices({i}, device), ones({1, 8}).to(device)})[0];
      EXPECT_EQ(last_plan_stats().replaced_bytes, 64u * 8 * 4);
      EXPECT_EQ(total.item(), 8.0 * (i + 1));
    }
  }
}

// Keys and values, say: a GPU stores both in one launch, in place.
TEST(StoreRows, OfTwoTensorsAreOneStep) {
  for (const Device device : tested_devices()) {
    Tensor first = zeros({64, 6}).to(device).eval(), second = ones({64, 6}).to(DType::f16).to(device).eval(),
           third = ones({64, 6}).to(device).eval();
    Compiled step = compile([&](const std::vector<Tensor>& in) {
      first.assign(store_rows(first, in[0], in[1]));
      second.assign(store_rows(second, in[0], in[1]));  // of another type: alone
      third.assign(store_rows(third, in[2], narrow(in[3], 1, 1, 6)));
      return std::vector<Tensor>{sum(in[1])};
    });
    const Tensor rows = arange(0, 6).to(DType::f32).reshape({1, 6}).to(device);
    const Tensor wide = arange(0, 8).to(DType::f32).reshape({1, 8}).to(device);
    for (const std::int64_t row : {0, 63, 5}) {
      const auto results = step({indices({row}, device), rows, indices({row / 2}, device), wide});
      if (device.kind != DeviceKind::cpu) {
        EXPECT_EQ(last_plan_stats().steps, 3u);
      }
      EXPECT_EQ(last_plan_stats().replaced_bytes, 64u * 6 * (4 + 2 + 4));
      EXPECT_EQ(results[0].item(), 15.0);
      const auto at = [&](const Tensor& tensor, std::int64_t place) {
        return narrow(tensor, 0, place, 1).to(DType::f32).to_vector<float>();
      };
      EXPECT_EQ(at(first, row), (std::vector<float>{0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(at(second, row), (std::vector<float>{0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(at(third, row / 2), (std::vector<float>{1, 2, 3, 4, 5, 6}));
      EXPECT_EQ(at(first, 40), std::vector<float>(6, 0));
      EXPECT_EQ(at(third, 40), std::vector<float>(6, 1));
    }
  }
}

// Plain attention over the keys and values that a sequence has, up to each query's own.
class CachedAttention : public testing::Test {
 protected:
  struct Sizes {
    std::int64_t heads, groups, features, page, pages;  // of a sequence
  };
  struct Query {
    std::int64_t sequence, position;
  };

  static void check(const Sizes& s, const std::vector<std::vector<std::int64_t>>& table,
                    const std::vector<Query>& queries, DType dtype, std::int64_t window, double soft_cap,
                    double tolerance, const std::vector<float>& sinks = {}) {
    const auto count = static_cast<std::int64_t>(queries.size());
    std::int64_t most = 0;
    for (const auto& pages : table)
      for (const auto page : pages) most = std::max(most, page);
    const Shape cache{(most + 1) * s.page, s.groups, s.features};
    const Tensor q = randn({count, s.heads, s.features}), keys = randn(cache).to(dtype),
                 values = randn(cache).to(dtype);
    std::vector<std::int64_t> sequences, positions, flat;
    for (const auto& query : queries) {
      sequences.push_back(query.sequence);
      positions.push_back(query.position);
    }
    for (const auto& pages : table) {
      flat.insert(flat.end(), pages.begin(), pages.end());
      flat.resize(flat.size() + static_cast<std::size_t>(s.pages) - pages.size(), -1);
    }
    const double scale = 0.7 / std::sqrt(static_cast<double>(s.features));
    std::vector<double> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      const Query& query = queries[static_cast<std::size_t>(i)];
      std::vector<std::int64_t> slots;
      for (std::int64_t p = window > 0 ? std::max<std::int64_t>(0, query.position - window + 1) : 0;
           p <= query.position; ++p)
        slots.push_back(
            table[static_cast<std::size_t>(query.sequence)][static_cast<std::size_t>(p / s.page)] * s.page +
            p % s.page);
      const Tensor seen = tensor<std::int64_t>(slots);
      const auto heads_of = [&](const Tensor& x) {
        return repeat_interleave(take(x.to(DType::f64), seen, 0), s.heads / s.groups, 1).transpose(0, 1);
      };
      const Tensor one = narrow(q, 0, i, 1).to(DType::f64).transpose(0, 1);  // (heads, 1, features)
      Tensor scores = matmul(one, heads_of(keys).transpose(1, 2)) * scale;
      if (soft_cap > 0) scores = tanh(scores / soft_cap) * soft_cap;
      const auto keys_seen = static_cast<std::int64_t>(slots.size());
      if (!sinks.empty())
        scores = concat({scores, tensor<float>(sinks).to(DType::f64).reshape({-1, 1, 1})}, 2);
      const Tensor weights = narrow(softmax(scores, -1), 2, 0, keys_seen);
      const auto row = matmul(weights, heads_of(values)).reshape({-1}).to_vector<double>();
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (const Device device : tested_devices()) {
      const Tensor result =
          cached_attention(q.to(device), keys.to(device), values.to(device), indices(sequences, device),
                           indices(positions, device),
                           indices(flat, device).reshape({static_cast<std::int64_t>(table.size()), s.pages}),
                           {.scale = scale,
                            .window = window,
                            .soft_cap = soft_cap,
                            .page = s.page,
                            .sinks = sinks.empty() ? Tensor() : tensor<float>(sinks).to(device)});
      const auto got = result.to(Device{}).to(DType::f64).to_vector<double>();
      ASSERT_EQ(got.size(), expected.size());
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
      EXPECT_LE(worst, tolerance) << to_string(device);
    }
  }
};

TEST_F(CachedAttention, OneQuery) {
  check({4, 2, 16, 8, 4}, {{2, 0, 3}}, {{0, 19}}, DType::f32, 0, 0, 1e-5);
  check({1, 1, 8, 8, 4}, {{0}}, {{0, 0}}, DType::f32, 0, 0, 1e-5);
}

// Slots that are a number, not memory yet, for one of the two.
TEST(StoreRows, OfTwoTensorsWaitForTheirSlots) {
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    const Tensor first = zeros({4, 8}).eval(), second = zeros({4, 8}).eval(), rows = ones({1, 8}).eval();
    const Tensor known = tensor<std::int64_t>({1}).eval();
    const Tensor a = store_rows(first, known, rows), b = store_rows(second, full({1}, 3, DType::i64), rows);
    eval({a, b});
    for (std::int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(a.to_vector<float>()[static_cast<std::size_t>(i)], i / 8 == 1 ? 1.0f : 0.0f) << i;
      EXPECT_EQ(b.to_vector<float>()[static_cast<std::size_t>(i)], i / 8 == 3 ? 1.0f : 0.0f) << i;
    }
  }
}

// A product of queries, keys and values, rope of the first two and rows of a cache: a GPU has one step for
// that.
TEST(StoredHeads, AreThoseOfSeparateSteps) {
  constexpr std::int64_t heads = 4, groups = 2, depth = 256, slots = 80;
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_k, DType::bf16})
      for (const std::int64_t size : {16, 40, 128})
        for (const std::int64_t rows : {1, 3, 8, 12, 20, 40, 70})
          for (const bool interleaved : {false, true}) {
            if (size == 128 && device.kind != DeviceKind::cuda) continue;  // for kernels that only those have
            // Where a kernel takes long to compile: each of these once.
            if (device.kind == DeviceKind::rocm && brief() &&
                ((size == 40) != (format == DType::q4_k) || (rows == 3) != interleaved || rows == 12 ||
                 rows == 20 || rows == 70 || !is_quantised(format)))
              continue;
            SCOPED_TRACE(to_string(device) + " " + std::string(dtype_name(format)) + " " +
                         std::to_string(rows) + " x " + std::to_string(size) + (interleaved ? " pairs" : ""));
            const DeviceScope here(device);
            manual_seed(51);
            const std::int64_t columns = (heads + 2 * groups) * size;
            const Tensor numbers = randn({columns, depth}) * 0.1;
            const Tensor w = (is_quantised(format) ? quantise(numbers, format) : numbers.to(format)).eval();
            const Tensor x = randn({rows, depth}).eval(), scale = (1.0 + randn({depth}) * 0.1).eval();
            const DType cached = rows == 3 ? DType::f32 : DType::f16;
            const Tensor keys = randn({slots, groups, size}).to(cached).eval(),
                         values = randn({slots, groups, size}).to(cached).eval();
            // One of the rows is not stored.
            const Tensor to = where(arange(rows) == 1, -1, arange(rows) + 2).to(DType::i64).eval();
            const Tensor positions = (arange(rows) + 2).to(DType::i64).eval();
            const Tensor frequencies = pow(full({size / 2}, 0.5), arange(size / 2)).to(DType::f64).eval();
            const Tensor sequences = zeros({rows}, DType::i64).eval(),
                         table = arange(slots).reshape({1, slots}).to(DType::i64).eval();
            const auto run = [&](bool alone) {
              const auto step = [&](const Tensor& one) { return alone ? one.eval() : one; };
              const Tensor all = step(quantised_matmul(step(rms_norm(x, scale, 1e-5)), w));
              const Tensor both =
                  narrow(all, 1, 0, (heads + groups) * size).reshape({rows, heads + groups, size});
              const Tensor turned =
                  step(rope(both.transpose(0, 1), positions, frequencies, interleaved)).transpose(0, 1);
              const Tensor v =
                  narrow(all, 1, (heads + groups) * size, groups * size).reshape({rows, groups, size});
              const Tensor k = step(store_rows(keys, to, narrow(turned, 1, heads, groups))),
                           more = step(store_rows(values, to, v));
              const Tensor seen = cached_attention(narrow(turned, 1, 0, heads), k, more, sequences, positions,
                                                   table, {.scale = 0.2});
              eval({seen, k, more});
              return std::vector<Tensor>{seen, k, more};
            };
            const auto expected = run(true);
            // Of the rope's result only queries are there to be looked at.
            const Config before = config();
            Config strict = before;
            strict.enable_strict_validation = true;
            set_config(strict);
            const auto found = run(false);
            set_config(before);
            const bool gpu = device.kind == DeviceKind::cuda || device.kind == DeviceKind::rocm;
            const bool joins = is_quantised(format) ? gpu && (rows <= 8 || has_wgmma(device))
                                                    : has_wgmma(device) && rows <= 8;
            if (joins) {
              EXPECT_EQ(last_plan_stats().steps, 2u);
            }
            for (std::size_t i = 0; i < found.size(); ++i) {
              const auto a = found[i].to(DType::f32).to_vector<float>(),
                         b = expected[i].to(DType::f32).to_vector<float>();
              for (std::size_t e = 0; e < a.size(); ++e) ASSERT_NEAR(a[e], b[e], 5e-3) << i << " " << e;
            }
          }
}

TEST(StoredHeads, OfSlotsOutOfRangeAreAnError) {
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    const Tensor x = ones({1, 256}), w = quantise(ones({64, 256}), DType::q8_0);
    const Tensor all = quantised_matmul(x, w), positions = zeros({1}, DType::i64).eval();
    const Tensor both = narrow(all, 1, 0, 48).reshape({1, 3, 16});
    const Tensor turned = rope(both.transpose(0, 1), positions).transpose(0, 1);
    const Tensor to = full({1}, 9, DType::i64).eval(), cache = zeros({4, 1, 16}, DType::f16).eval();
    const Tensor k = store_rows(cache, to, narrow(turned, 1, 2, 1)),
                 v = store_rows(cache, to, narrow(all, 1, 48, 16).reshape({1, 1, 16}));
    const Tensor q = cached_attention(narrow(turned, 1, 0, 2), k, v, positions, positions,
                                      zeros({1, 4}, DType::i64).eval(), {.scale = 1});
    EXPECT_THROW(
        {
          eval({k, v, q});
          synchronize(device);
        },
        IndexError);
  }
}

TEST_F(CachedAttention, HeadsThatAreNotAligned) {
  for (const std::int64_t features : {1, 7, 12, 20})
    for (const DType dtype : {DType::f32, DType::f16})
      check({6, 3, features, 8, 4}, {{2, 0, 3}}, {{0, 19}}, dtype, 0, 0, 2e-3);
}
TEST_F(CachedAttention, SeveralSequencesInAnyOrder) {
  check({6, 2, 24, 4, 6}, {{5, 1}, {0, 2, 3, 4}, {6}}, {{1, 14}, {0, 0}, {0, 7}, {2, 3}, {1, 15}, {1, 2}},
        DType::f32, 0, 0, 1e-5);
}
TEST_F(CachedAttention, AChunkOfAPrompt) {
  std::vector<Query> queries;
  for (std::int64_t i = 0; i < 40; ++i) queries.push_back({0, 5 + i});
  check({8, 8, 64, 16, 4}, {{1, 3, 0}}, queries, DType::f32, 0, 0, 1e-5);
}
TEST_F(CachedAttention, WindowAndSoftCap) {
  check({4, 2, 16, 8, 8}, {{0, 1, 2, 3, 4, 5, 6}}, {{0, 50}, {0, 3}, {0, 9}}, DType::f32, 10, 0, 1e-5);
  check({4, 2, 16, 8, 8}, {{0, 1, 2, 3, 4, 5, 6}}, {{0, 50}, {0, 3}}, DType::f32, 0, 0.5, 1e-5);
  check({4, 2, 16, 8, 8}, {{0, 1, 2, 3, 4, 5, 6}}, {{0, 50}, {0, 3}, {0, 9}}, DType::f16, 10, 0.5, 2e-3);
}
TEST_F(CachedAttention, HalvesAndManyKeys) {
  std::vector<std::int64_t> pages;
  for (std::int64_t i = 0; i < 40; ++i) pages.push_back((i * 7) % 40);
  for (const DType dtype : {DType::f16, DType::bf16})
    check({8, 1, 128, 32, 48}, {pages}, {{0, 1200}, {0, 1279}}, dtype, 0, 0, 1e-4);
  check({3, 1, 80, 32, 48}, {pages}, {{0, 700}}, DType::f16, 0, 0, 1e-4);
}
// Heads of a group in one block or in several, with keys for a part of a turn, for a whole one and for more.
TEST_F(CachedAttention, HeadsAndKeysOfABlock) {
  std::vector<std::int64_t> pages;
  for (std::int64_t i = 0; i < 20; ++i) pages.push_back((i * 7) % 20);
  for (const std::int64_t heads : {1, 2, 3, 4, 7})
    for (const std::int64_t position : {63, 127, 128, 200})
      // Queries and weights may be rounded to f16, as the keys and values were.
      check({heads, 1, 128, 16, 20}, {pages}, {{0, position}}, DType::f16, 0, 0, 5e-4);
  for (const DType dtype : {DType::f32, DType::bf16})
    check({5, 1, 64, 16, 20}, {pages}, {{0, 300}, {0, 5}}, dtype, 150, 0, 1e-4);
}
// The score of nothing: the largest of all, one among others, none; with keys in one block and in several.
TEST_F(CachedAttention, Sinks) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  std::vector<std::int64_t> pages;
  for (std::int64_t i = 0; i < 40; ++i) pages.push_back((i * 7) % 40);
  check({4, 2, 16, 8, 40}, {pages}, {{0, 19}, {0, 0}}, DType::f32, 0, 0, 1e-5, {0.5f, 12, -3, none});
  check({4, 2, 16, 8, 40}, {pages}, {{0, 300}, {0, 9}}, DType::f32, 10, 0.5, 1e-5, {0, -1, 30, 1});
  for (const DType dtype : {DType::f16, DType::bf16})
    check({8, 2, 64, 32, 40}, {pages}, {{0, 1200}, {0, 1279}, {0, 100}}, dtype, 0, 0, 2e-4,
          {0, 1, 2, 3, 8, -8, 40, none});
}
// Queries that f16 cannot hold, with keys that make ordinary scores of them.
TEST_F(CachedAttention, QueriesBeyondHalves) {
  const Tensor q = randn({1, 4, 64}) * 3e5, keys = (randn({48, 1, 64}) * 1e-5).to(DType::f16),
               values = randn({48, 1, 64}).to(DType::f16);
  for (const Device device : tested_devices()) {
    const auto attended = [&](DType dtype) {
      return cached_attention(q.to(device), keys.to(dtype).to(device), values.to(dtype).to(device),
                              indices({0}, device), indices({40}, device),
                              indices({2, 0, 1}, device).reshape({1, 3}), {.scale = 0.1, .page = 16})
          .to(Device{})
          .to_vector<float>();
    };
    const auto got = attended(DType::f16), expected = attended(DType::f32);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 1e-4) << to_string(device) << " " << i;
  }
}
// What slots hold that no query sees says nothing, whatever it is; slot 0 is one of them, and so are pages
// that are not there.
TEST_F(CachedAttention, SeesOnlyItsOwnKeys) {
  const std::int64_t page = 16;
  for (const Device device : tested_devices())
    for (const DType dtype : {DType::f32, DType::f16}) {
      const Tensor nobodys = arange(3 * page).reshape({3 * page, 1, 1}) < page;
      const auto cache = [&] { return where(nobodys, NAN, randn({3 * page, 2, 64})).to(dtype).to(device); };
      const Tensor q = randn({2, 4, 64}).to(device);
      for (const std::vector<std::int64_t>& table : {std::vector<std::int64_t>{1, 2}, {2, -1}}) {
        const Tensor result =
            cached_attention(q, cache(), cache(), indices({0, 0}, device), indices({9, 3}, device),
                             indices(table, device).reshape({1, 2}), {.scale = 0.1, .page = page});
        for (const float number : result.to(DType::f32).to_vector<float>())
          ASSERT_TRUE(std::isfinite(number)) << to_string(device) << " " << dtype_name(dtype);
      }
    }
}
// Nor does what a later query sees, or an earlier one of a window: a value that is not finite is theirs
// alone.
TEST_F(CachedAttention, ValuesThatAreNotFiniteStayWithThoseWhoSeeThem) {
  constexpr std::int64_t count = 12, bad = 70, page = 16, features = 16;
  const Tensor place = arange(6 * page).reshape({6 * page, 1, 1});
  for (const float value : {INFINITY, NAN})
    for (const std::int64_t window : {0, 3})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        std::vector<std::int64_t> positions;
        for (std::int64_t i = 0; i < count; ++i) positions.push_back(bad - 6 + i);
        const auto attended = [&](float number) {
          manual_seed(3);
          const Tensor q = randn({count, 2, features}), keys = randn({6 * page, 1, features}),
                       values = where(place == bad, number, randn({6 * page, 1, features}));
          return cached_attention(q, keys.to(dtype), values.to(dtype),
                                  indices(std::vector<std::int64_t>(count, 0), Device{}),
                                  indices(positions, Device{}), arange(6).reshape({1, 6}),
                                  {.window = window, .page = page})
              .to_vector<float>();
        };
        const auto got = attended(value), expected = attended(0);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::int64_t position = positions[i / (2 * features)];
          const bool sees = position >= bad && (window == 0 || position < bad + window);
          ASSERT_EQ(std::isfinite(got[i]), !sees) << dtype_name(dtype) << " window " << window << " " << i;
          if (sees) continue;
          // Not equal: compilers may round products of one row otherwise than those of several.
          ASSERT_NEAR(got[i], expected[i], 1e-5) << dtype_name(dtype) << " window " << window << " " << i;
        }
      }
}
// So many that a block has four heads, and a split more than one turn; and so many that blocks are small.
TEST_F(CachedAttention, ManyQueries) {
  std::vector<std::int64_t> pages;
  for (std::int64_t i = 0; i < 20; ++i) pages.push_back((i * 7) % 20);
  for (const std::int64_t count : {40, 60, 90}) {
    std::vector<Query> queries;
    for (std::int64_t i = 0; i < count; ++i) queries.push_back({0, i * 319 / (count - 1)});
    for (const DType dtype : {DType::f32, DType::f16})
      check({20, 5, 128, 16, 20}, {pages}, queries, dtype, 0, 0, 1e-4);
  }
}
// Numbers of 8 bits, with a scale for 32 neighbours.
TEST(ScaledBytes, AreNearTheNumbers) {
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    const Tensor x = (randn({40, 2, 96}) * 3).eval();
    const auto back = from_scaled_bytes(to_scaled_bytes(x)).to_vector<float>(),
               numbers = x.to_vector<float>();
    for (std::size_t run = 0; run < numbers.size(); run += 32) {
      float most = 0;
      for (std::size_t i = run; i < run + 32; ++i) most = std::max(most, std::abs(numbers[i]));
      for (std::size_t i = run; i < run + 32; ++i) EXPECT_NEAR(back[i], numbers[i], most / 127 * 0.51);
    }
    const ScaledBytes own = to_scaled_bytes(x), there = to_scaled_bytes(x.to(Device{}));
    EXPECT_EQ(own.bytes.to_bytes(), there.bytes.to_bytes());
    EXPECT_EQ(own.scales.to_bytes(), there.scales.to_bytes());
    EXPECT_EQ(from_scaled_bytes(to_scaled_bytes(zeros({1, 2, 64}))).to_vector<float>(),
              std::vector<float>(128, 0.0f));
    const auto tiny = from_scaled_bytes(to_scaled_bytes(full({32}, 1e-9))).to_vector<float>();
    for (const float value : tiny) EXPECT_EQ(value, 0.0f);  // below what scales can say
  }
  EXPECT_THROW(to_scaled_bytes(zeros({4, 48})), ShapeError);
}

// Attention on bytes with scales is attention on the numbers they stand for.
TEST(ScaledBytes, CanBeAttendedTo) {
  struct Case {
    std::int64_t heads, groups, features, page, pages;
    CachedAttentionOptions options;
    DType dtype = DType::f32;
    bool sinks = false;
  };
  for (const Device device : tested_devices())
    for (const Case& c : {Case{6, 2, 96, 10, 4, {.scale = 0.1, .window = 12}}, Case{4, 4, 32, 10, 4, {}},
                          Case{8, 1, 128, 32, 24, {.scale = 0.1}}, Case{5, 1, 64, 32, 24, {.soft_cap = 2}},
                          Case{2, 1, 256, 10, 4, {.scale = 0.05}, DType::bf16},
                          Case{4, 2, 64, 32, 24, {.scale = 0.1}, DType::f32, true}}) {
      const DeviceScope here(device);
      manual_seed(17);
      const Tensor x = randn({c.pages * c.page, c.groups, c.features}) * 3;
      const ScaledBytes keys = to_scaled_bytes(x), values = to_scaled_bytes(x * 0.5 + 1);
      std::vector<std::int64_t> pages;
      for (std::int64_t i = 0; i < c.pages; ++i) pages.push_back((i * 7 + 3) % c.pages);
      const Tensor q = randn({3, c.heads, c.features}).to(c.dtype),
                   table = tensor<std::int64_t>(pages).reshape({1, c.pages}),
                   sequences = zeros({3}, DType::i64),
                   positions = tensor<std::int64_t>({c.pages * c.page - 10, 7, 0});
      CachedAttentionOptions options = c.options;
      options.page = c.page;
      if (c.sinks) options.sinks = randn({c.heads});
      const Tensor got = cached_attention(q, keys, values, sequences, positions, table, options);
      EXPECT_EQ(got.dtype(), c.dtype);
      const auto found = got.to(DType::f32).to_vector<float>(),
                 expected = cached_attention(q.to(DType::f32), from_scaled_bytes(keys),
                                             from_scaled_bytes(values), sequences, positions, table, options)
                                .to_vector<float>();
      ASSERT_EQ(found.size(), expected.size());
      const double tolerance = c.dtype == DType::f32 ? 2e-5 : 2e-2;
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], tolerance) << to_string(device) << " features " << c.features;
      EXPECT_THROW(
          cached_attention(q, {keys.bytes, values.bytes}, values, sequences, positions, table, options),
          ShapeError);
    }
}

TEST_F(CachedAttention, RefusesWhatDoesNotFit) {
  const Tensor one = tensor<std::int64_t>({0}), table = zeros({1, 1}, DType::i64).eval();
  test::expect_error<ShapeError>(
      [&] {
        cached_attention(zeros({1, 3, 8}), zeros({4, 2, 8}), zeros({4, 2, 8}), one, one, table, {.page = 4});
      },
      {"[cached_attention] q (1, 3, 8) does not fit keys (4, 2, 8) and values (4, 2, 8)"});
  test::expect_error<ShapeError>(
      [&] {
        cached_attention(zeros({1, 2, 8}), zeros({4, 2, 8}), zeros({4, 2, 8}), one, one, table,
                         {.page = 4, .sinks = zeros({3})});
      },
      {"[cached_attention] sinks f32 (3,) for 2 heads"});
  EXPECT_THROW(cached_attention(zeros({1, 2, 8}), zeros({4, 2, 8}).eval(), zeros({4, 2, 8}).eval(), one,
                                tensor<std::int64_t>({4}), table, {.page = 4})
                   .eval(),
               IndexError);
}

}  // namespace
}  // namespace hearth
