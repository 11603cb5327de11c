// Copies that turn a matrix on its side.
#pragma once

#include <memory>

#include "device/step.h"

namespace hearth::cpu {

// A kernel for an elementwise step that only copies an input which is dense along another axis than the last;
// null for other steps.
std::unique_ptr<Kernel> make_transpose(const Step& step);

}  // namespace hearth::cpu
