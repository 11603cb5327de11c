// The NT_AMDGPU_METADATA note: what the compiler says about kernels and their arguments, in MessagePack.
#pragma once

#include <string>
#include <vector>

#include "code_object/bytes.h"

namespace hipemu {

// The hardware has no limit for arguments, but nobody passes a megabyte of them; it bounds what a launch
// copies.
inline constexpr uint32_t max_kernarg_bytes = 1u << 20;

struct Metadata {
  std::string target;  // "gfx90a:sramecc+:xnack-"; empty when the note does not say
  // Everything but the entry point and the register settings, which the descriptor has. The three sizes in
  // Kernel::descriptor are those of the metadata.
  std::vector<Kernel> kernels;
};

// `note` is the description part of the note. Throws CodeObjectError.
Metadata parse_metadata(Bytes note);

}  // namespace hipemu
