// Named tensors: what a model, an optimiser or a schedule needs to go on where it stopped.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

using StateDict = std::map<std::string, Tensor>;

// What a load that is not strict left out.
struct LoadReport {
  std::vector<std::string> missing;     // variables the source has nothing for
  std::vector<std::string> unexpected;  // entries of the source that no variable has
};

// Assigns each tensor of `source` to the variable of that name, converted to the variable's dtype and device.
// Throws ValueError naming all missing and unexpected entries (when strict) and all whose shapes differ
// (always); then nothing has been assigned. `operation` goes into the message.
LoadReport load_state(const StateDict& variables, const StateDict& source, bool strict,
                      const std::string& operation);

}  // namespace hearth
