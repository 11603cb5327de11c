// Kernels of attention over a cache, every variant that this machine can run, against plain sums in f64.
#include "cpu/cached_attention_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpu/scratch.h"
#include "hearth/dtype.h"

namespace hearth::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double precision = 3e-5;  // of sums in f32

struct Variant {
  const char* name;
  const CachedAttentionKernels* kernels;
  double of_halves;  // precision of results with keys and values of 16 bits
};

std::vector<Variant> variants() {
  std::vector<Variant> list = {{"baseline", &baseline::cached_attention_kernels_table, precision}};
#if defined(__aarch64__)
  // Queries and weights become f16 there.
  if (multiplies_halves()) list.push_back({"fhm", &fhm::cached_attention_kernels_table, 3e-3});
#elif defined(__x86_64__)
  if (best_isa() >= Isa::avx2) list.push_back({"avx2", &avx2::cached_attention_kernels_table, precision});
  if (best_isa() >= Isa::avx512)
    list.push_back({"avx512", &avx512::cached_attention_kernels_table, precision});
  if (has_matrix_unit()) list.push_back({"amx", &amx::cached_attention_kernels_table, 1.5e-4});
#endif
  return list;
}

struct Sizes {
  std::int64_t queries, features, keys;
};

// One group of two in a cache whose pages lie in any order.
template <typename T>
class Work {
 public:
  static constexpr std::int64_t page = 16, groups = 2;

  Work(const Sizes& sizes, std::int64_t window, float soft_cap, float sink, std::mt19937& random)
      : sizes_(sizes), soft_cap_(soft_cap), sink_(sink) {
    const std::int64_t pages = (sizes.keys + page - 1) / page;
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < pages; ++i) pages_.push_back(pages - 1 - i);
    for (auto* numbers : {&keys_, &values_})
      for (std::int64_t i = 0; i < pages * page * groups * sizes.features; ++i)
        numbers->push_back(T(normal(random)));
    for (std::int64_t i = 0; i < sizes.queries * sizes.features; ++i)
      queries_.push_back(0.3f * normal(random));
    for (std::int64_t r = 0; r < sizes.queries; ++r) {  // four rows of each position
      last_.push_back(std::max<std::int64_t>(0, sizes.keys - 1 - (sizes.queries - 1 - r) / 4));
      first_.push_back(window > 0 ? std::max<std::int64_t>(0, last_.back() - window + 1) : 0);
    }
  }

  T& value(std::int64_t key, std::int64_t feature) { return values_[at(key, feature)]; }
  T& key(std::int64_t key, std::int64_t feature) { return keys_[at(key, feature)]; }

  std::vector<float> attend(const CachedAttentionKernels& kernels) const {
    std::vector<float> out(queries_.size(), -1.0f);
    std::vector<CachedQueries::Row> rows;
    for (std::int64_t r = 0; r < sizes_.queries; ++r)
      rows.push_back({queries_.data() + r * sizes_.features, out.data() + r * sizes_.features,
                      first_[static_cast<std::size_t>(r)], last_[static_cast<std::size_t>(r)], sink_});
    const Scratch scratch(cached_attention_scratch(sizes_.queries, sizes_.features));
    kernels.attend[static_cast<int>(dtype_of<T>) - static_cast<int>(DType::f16)](
        {.rows = rows.data(),
         .count = sizes_.queries,
         .features = sizes_.features,
         .keys = keys_.data(),
         .values = values_.data(),
         .key_scales = nullptr,
         .value_scales = nullptr,
         .slot_stride = groups * sizes_.features,
         .pages = pages_.data(),
         .page = page,
         .first = *std::min_element(first_.begin(), first_.end()),
         .end = sizes_.keys,
         .soft_cap = soft_cap_,
         .scratch = scratch.data()});
    return out;
  }

  std::vector<double> expected() const {
    std::vector<double> out(queries_.size());
    for (std::int64_t r = 0; r < sizes_.queries; ++r) {
      const std::int64_t first = first_[static_cast<std::size_t>(r)],
                         last = last_[static_cast<std::size_t>(r)];
      std::vector<double> scores;
      double largest = sink_;
      for (std::int64_t k = first; k <= last; ++k) {
        double score = 0;
        for (std::int64_t f = 0; f < sizes_.features; ++f)
          score += static_cast<double>(queries_[static_cast<std::size_t>(r * sizes_.features + f)]) *
                   static_cast<double>(static_cast<float>(keys_[at(k, f)]));
        if (soft_cap_ > 0) score = soft_cap_ * std::tanh(score / soft_cap_);
        scores.push_back(score);
        largest = std::max(largest, score);
      }
      double total = std::exp(sink_ - largest);
      for (double& score : scores) total += score = std::exp(score - largest);
      for (std::int64_t k = first; k <= last; ++k)
        for (std::int64_t f = 0; f < sizes_.features; ++f)
          out[static_cast<std::size_t>(r * sizes_.features + f)] +=
              scores[static_cast<std::size_t>(k - first)] / total *
              static_cast<double>(static_cast<float>(values_[at(k, f)]));
    }
    return out;
  }

 private:
  std::size_t at(std::int64_t key, std::int64_t feature) const {
    const std::int64_t slot = pages_[static_cast<std::size_t>(key / page)] * page + key % page;
    return static_cast<std::size_t>(slot * groups * sizes_.features + feature);
  }

  Sizes sizes_;
  float soft_cap_, sink_;
  std::vector<T> keys_, values_;
  std::vector<float> queries_;
  std::vector<std::int64_t> pages_, first_, last_;
};

template <typename T>
void expect_plain_sums(const Work<T>& work) {
  const std::vector<double> expected = work.expected();
  for (const Variant& variant : variants()) {
    const std::vector<float> found = work.attend(*variant.kernels);
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = std::abs(static_cast<double>(found[i]) - expected[i]);
      if (!(error <= worst)) worst = error;
    }
    EXPECT_LE(worst, sizeof(T) == 2 ? variant.of_halves : precision) << variant.name;
  }
}

template <typename T>
class AttentionKernels : public ::testing::Test {};
using Caches = ::testing::Types<float16, bfloat16, float>;
TYPED_TEST_SUITE(AttentionKernels, Caches);

TYPED_TEST(AttentionKernels, AnyNumberOfQueriesAndKeys) {
  std::mt19937 random(3);
  for (const std::int64_t queries : {1, 3, 4, 16, 17, 32, 40, 64, 200})
    for (const std::int64_t features : {64, 96, 128, 48, 20})
      for (const std::int64_t keys : {1, 5, 33, 64, 65, 200}) {
        SCOPED_TRACE(testing::Message() << queries << " queries of " << features << ", " << keys << " keys");
        expect_plain_sums(Work<TypeParam>({queries, features, keys}, 0, 0, -infinity, random));
      }
}

TYPED_TEST(AttentionKernels, WindowsCapsAndSinks) {
  std::mt19937 random(4);
  for (const std::int64_t queries : {4, 48}) {
    expect_plain_sums(Work<TypeParam>({queries, 64, 150}, 20, 0, -infinity, random));
    expect_plain_sums(Work<TypeParam>({queries, 64, 150}, 0, 2, -infinity, random));
    expect_plain_sums(Work<TypeParam>({queries, 64, 150}, 70, 0, 1.5f, random));
  }
}

// What a query does not see does not reach it, and what is not finite stays so for those who see it.
TYPED_TEST(AttentionKernels, WhatIsNotFinite) {
  std::mt19937 random(5);
  constexpr std::int64_t features = 64, keys = 100;
  for (const std::int64_t queries : {8, 40})
    for (const float bad : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
      Work<TypeParam> work({queries, features, keys}, 0, 0, -infinity, random);
      work.value(keys - 1, 3) = TypeParam(bad);  // which the last four rows see
      work.value(7, 9) = TypeParam(bad);         // all
      const std::vector<double> expected = work.expected();
      for (const Variant& variant : variants()) {
        const std::vector<float> found = work.attend(*variant.kernels);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(std::isfinite(found[i]), std::isfinite(expected[i])) << variant.name << " " << i;
          if (std::isfinite(found[i])) {
            ASSERT_NEAR(found[i], expected[i], 3e-3) << variant.name << " " << i;
          }
        }
      }
      work.key(50, 0) = TypeParam(std::numeric_limits<float>::quiet_NaN());
      for (const Variant& variant : variants())
        for (const float number : work.attend(*variant.kernels))
          ASSERT_TRUE(std::isnan(number)) << variant.name;
    }
}

}  // namespace
}  // namespace hearth::cpu
