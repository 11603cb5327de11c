// Rotary position embedding.
#pragma once

#include <memory>

#include "device/step.h"

namespace hearth::cpu {

std::unique_ptr<Kernel> make_rope(const Step& step);

}  // namespace hearth::cpu
