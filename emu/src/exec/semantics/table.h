// The table of instructions.
#pragma once

#include <vector>

#include "exec/operation.h"

namespace hipemu {

std::vector<Semantics> all_semantics();

}  // namespace hipemu
