#include "gpu/attention_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"

namespace hearth::gpu {

AttentionPlace place_of(const Layout& layout) {
  return {layout.strides[0], layout.strides[1], layout.strides[2], layout.strides[3]};
}

bool in_packets(const Layout& layout) {
  const auto fits = [&](std::size_t axis) {
    return layout.shape[axis] <= 1 || layout.strides[axis] % 8 == 0;
  };
  return layout.strides[3] == 1 && layout.shape[3] % 8 == 0 && fits(0) && fits(1) && fits(2);
}

bool on_packet(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

AttentionShape attention_shape(const Layout& q, const Layout& k, const Layout& v,
                               const AttentionAttributes& attributes) {
  constexpr std::int64_t most = 1 << 30;
  for (const Layout* layout : {&q, &k})
    for (const auto size : layout->shape)
      if (size > most) throw KernelError(fmt::format("[attention] an axis of {} elements", size));
  const auto whole = [](std::int64_t size) { return static_cast<int>(size); };
  return {.batch = whole(q.shape[0]),
          .heads = whole(q.shape[1]),
          .groups = whole(k.shape[1]),
          .queries = whole(q.shape[2]),
          .keys = whole(k.shape[2]),
          .features = whole(q.shape[3]),
          .stacked = 1,
          .bounded = attributes.causal || attributes.window > 0,
          .window = whole(std::min(attributes.window, most)),
          .splits = 1,
          .split_keys = whole(k.shape[2]),
          .scale = static_cast<float>(attributes.scale),
          .q = place_of(q),
          .k = place_of(k),
          .v = place_of(v),
          .dy = {},
          .delta_batch = 0,
          .delta_head = 0,
          .delta_row = 0};
}

}  // namespace hearth::gpu
