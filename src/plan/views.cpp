// Stride arithmetic of views.
#include "plan/views.h"

namespace hearth {

std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  if (is_contiguous(shape, strides)) return contiguous_strides(target);

  // Walk both shapes from the outside, matching groups of axes with equal products. A group can be re-split
  // only if its old axes step through memory evenly.
  Shape old_shape;
  Strides old_strides;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    old_shape.push_back(shape[i]);
    old_strides.push_back(strides[i]);
  }
  Strides result(target.size());
  std::size_t old_begin = 0, new_begin = 0;
  while (old_begin < old_shape.size() && new_begin < target.size()) {
    std::size_t old_end = old_begin + 1, new_end = new_begin + 1;
    std::int64_t old_count = old_shape[old_begin], new_count = target[new_begin];
    while (old_count != new_count) {
      if (new_count < old_count)
        new_count *= target[new_end++];
      else
        old_count *= old_shape[old_end++];
    }
    for (std::size_t i = old_begin; i + 1 < old_end; ++i)
      if (old_strides[i] != old_shape[i + 1] * old_strides[i + 1]) return std::nullopt;
    std::int64_t step = old_strides[old_end - 1];
    for (std::size_t i = new_end; i-- > new_begin;) {
      result[i] = step;
      step *= target[i];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  for (; new_begin < target.size(); ++new_begin) result[new_begin] = 1;  // trailing axes of size 1
  return result;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  Strides result(target.size(), 0);
  const std::size_t lead = target.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 || target[lead + i] == 1) result[lead + i] = strides[i];
  return result;
}

std::optional<ViewLayout> view_layout(const Node& node, const Shape& input_shape, const ViewLayout& input) {
  ViewLayout result{input.offset, {}};
  switch (node.op) {
    case Op::reshape: {
      auto strides = reshape_strides(input_shape, input.strides, node.shape);
      if (!strides) return std::nullopt;
      result.strides = std::move(*strides);
      return result;
    }
    case Op::permute:
      for (auto axis : node.attribute<PermuteAttributes>().order)
        result.strides.push_back(input.strides[static_cast<std::size_t>(axis)]);
      return result;
    case Op::broadcast:
      result.strides = broadcast_strides(input_shape, input.strides, node.shape);
      return result;
    case Op::slice: {
      const auto& slice = node.attribute<SliceAttributes>();
      for (std::size_t i = 0; i < node.shape.size(); ++i) {
        if (node.shape[i] > 0) result.offset += slice.start[i] * input.strides[i];
        result.strides.push_back(slice.step[i] * input.strides[i]);
      }
      if (element_count(node.shape) == 0) result.offset = input.offset;
      return result;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace hearth
