// Several elements at a time, between memory and the type to compute in.
#pragma once

#include "gpu.h"

// P elements from number `at` on. More than one are neighbours; single ones are `step` apart.
template <int P, class T, class C>
DEVICE void read_packet(const T* from, i64 step, i64 at, C* to) {
  if constexpr (P == 1) {
    to[0] = load(from[at * step]);
  } else {
    const auto packet = *reinterpret_cast<const Packet<T, P>*>(from + at);
#pragma unroll
    for (int e = 0; e < P; ++e) to[e] = load(packet.element[e]);
  }
}

template <int P, class T, class C>
DEVICE void write_packet(T* to, const C* from) {
  Packet<T, P> packet;
#pragma unroll
  for (int e = 0; e < P; ++e) packet.element[e] = store<T>(from[e]);
  *reinterpret_cast<Packet<T, P>*>(to) = packet;
}
