// The loader as Python holds it.
#pragma once

#include "bindings.h"
#include "hearth/data.h"

namespace hearth::python {

class Loader : public data::DataLoader {
 public:
  using data::DataLoader::DataLoader;
  ~Loader();
};

}  // namespace hearth::python
