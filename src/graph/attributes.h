// The attributes of operations: plain structs, one per group of operations that share their meaning.
#pragma once

#include <cstdint>
#include <tuple>
#include <variant>

#include "base/hash.h"
#include "hearth/shape.h"

namespace hearth {

struct ReduceAttributes {  // the axes to reduce, sorted; they stay as size 1
  Axes axes;
  auto fields() const { return std::tie(axes); }
};

struct PermuteAttributes {
  Axes order;
  auto fields() const { return std::tie(order); }
};

struct SliceAttributes {  // first element and step per axis; the lengths are the node's shape (unslice: the
                          // input's)
  Shape start, step;
  auto fields() const { return std::tie(start, step); }
};

struct AxisAttributes {  // scan, concat, indexing
  std::int64_t axis = 0;
  bool descending = false;  // argsort
  auto fields() const { return std::tie(axis, descending); }
};

struct PadAttributes {  // elements before each axis; what follows it comes from the shapes
  Shape before;
  double value = 0;
  auto fields() const { return std::tie(before, value); }
};

struct RangeAttributes {
  double start = 0, step = 1;
  auto fields() const { return std::tie(start, step); }
};

struct WindowAttributes {  // convolution and pooling, one entry per spatial axis
  Shape kernel, stride, padding, dilation;
  std::int64_t groups = 1;
  bool count_include_pad = true;
  auto fields() const { return std::tie(kernel, stride, padding, dilation, groups, count_include_pad); }
};

struct NormAttributes {
  double epsilon = 0;
  auto fields() const { return std::tie(epsilon); }
};

struct RopeAttributes {
  double base = 10000;  // means nothing where frequencies are given
  bool interleaved = false;
  bool inverse = false;
  auto fields() const { return std::tie(base, interleaved, inverse); }
};

struct AttentionAttributes {  // as in AttentionOptions
  double scale = 1;
  bool causal = false;
  std::int64_t window = 0;
  auto fields() const { return std::tie(scale, causal, window); }
};

struct CachedAttentionAttributes {  // as in tensor/key_value_cache.h
  double scale = 1;
  std::int64_t window = 0;  // keys that a query sees at most; 0: any number
  double soft_cap = 0;      // scores become cap * tanh(score / cap); 0: none
  std::int64_t page = 0;    // rows of a page
  bool old_keys = false;    // a query's earlier keys and values are from before this plan
  auto fields() const { return std::tie(scale, window, soft_cap, page, old_keys); }
};

using Attributes =
    std::variant<std::monostate, ReduceAttributes, PermuteAttributes, SliceAttributes, AxisAttributes,
                 PadAttributes, RangeAttributes, WindowAttributes, NormAttributes, RopeAttributes,
                 AttentionAttributes, CachedAttentionAttributes>;

inline void hash_attributes(Hasher& hasher, const Attributes& attributes) {
  hasher.add(static_cast<std::uint64_t>(attributes.index()));
  std::visit(
      [&](const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
          hasher.add(value.fields());
      },
      attributes);
}

}  // namespace hearth
