// How the operands of attention lie, as its kernels are told.
#pragma once

#include "device/step.h"
#include "gpu/attention_engines.h"

namespace hearth::gpu {

// Throws KernelError for an axis that is too long.
AttentionShape attention_shape(const Layout& q, const Layout& k, const Layout& v,
                               const AttentionAttributes& attributes);
AttentionPlace place_of(const Layout& layout);

// Whether rows can be read eight features at a time, given a pointer that is on_packet().
bool in_packets(const Layout& layout);
bool on_packet(const void* pointer);

}  // namespace hearth::gpu
