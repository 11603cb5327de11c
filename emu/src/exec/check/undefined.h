// Values that come from memory nobody has written.
//
// A load marks the lanes of its destination in Wave::undefined, because compilers load padding and move it
// about. A fault is reported when something computes with such a value, uses it as an address, or compares
// it.
#pragma once

#include "exec/operation.h"
#include "exec/wave.h"

namespace hipemu {

// To be called ahead of every instruction while wave.undefined_rows > 0 (loads change that count). Throws
// KernelFault when the instruction uses an undefined value of an active lane; otherwise carries the marks
// along to where the instruction moves the values, and removes them from what it overwrites.
void track_undefined(Wave& wave, const Operation& op);

// Marks or unmarks lanes of a register row.
void set_undefined(Wave& wave, uint32_t row, uint64_t lanes, bool undefined);

}  // namespace hipemu
