// Target ids ("gfx90a:sramecc+:xnack-"): how they are written, encoded in ELF flags, and which runs where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hipemu {

// A feature that is not set means "any" for code (it runs with the feature on or off).
struct TargetId {
  std::string processor;
  std::optional<bool> sramecc, xnack;

  bool operator==(const TargetId&) const = default;
  std::string text() const;  // features in canonical order
};

// Throws CodeObjectError when `text` is not a processor followed by ":sramecc+", ":xnack-" and the like.
TargetId parse_target_id(std::string_view text);

// The name for EF_AMDGPU_MACH of e_flags; empty when it is not known.
std::string_view processor_of_flags(uint32_t flags);
// Processor and features of the e_flags of code object version 4 and later; nothing when the processor is
// unknown.
std::optional<TargetId> target_of_flags(uint32_t flags);

bool is_generic(std::string_view processor);  // "gfx11-generic"
// Whether code for a generic processor runs on this one.
bool generic_covers(std::string_view generic, std::string_view processor);

// How well code suits a chip: nothing when it cannot run there, else the higher the better. Code made for the
// very processor beats generic code; a feature that is named and agrees beats one left open. Where `chip`
// leaves a feature open both settings run, and the usual one of these machines (sramecc+, xnack-) is
// preferred.
std::optional<int> suitability(const TargetId& code, const TargetId& chip);

}  // namespace hipemu
