// Strides of views: how reshape, permute, broadcast and slice look at memory that is already there.
#pragma once

#include <optional>

#include "graph/node.h"

namespace hearth {

// Where a value's elements are, relative to the first element of its root.
struct ViewLayout {
  std::int64_t offset = 0;
  Strides strides;
};

// Strides that show elements of (shape, strides) in row-major order as `target`, or nothing if only a copy
// can.
std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& target);

// Strides of `shape` seen as the broadcast shape `target`.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

// The layout of view node `node` over an input with `input` layout and `input_shape`, or nothing if only a
// copy can.
std::optional<ViewLayout> view_layout(const Node& node, const Shape& input_shape, const ViewLayout& input);

}  // namespace hearth
