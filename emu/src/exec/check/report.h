// The words of reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exec/check/access.h"
#include "exec/wave.h"

namespace hipemu {

// The whole report of a fault: what, in which kernel, at which instruction and source line, by which thread.
// `wave` is the one that threw.
std::string describe(const KernelFault& fault, const Wave& wave);

std::string_view describe_access(AccessKind kind);  // "load", "store", "atomic"

// "allocation 12 (hipMalloc, 4096 bytes)"
std::string describe_allocation(const Allocation& allocation);

// Where some bytes lie, by the allocation that is nearest: "4 bytes past the end of allocation 12 (hipMalloc,
// 4096 bytes)".
std::string describe_address(uint64_t address, uint64_t bytes);

}  // namespace hipemu
