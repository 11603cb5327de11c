// The table of instructions, in the variant that suits this machine's instruction set.
#pragma once

#include <vector>

#include "exec/operation.h"

namespace hipemu {

std::vector<Semantics> all_semantics();

}  // namespace hipemu
