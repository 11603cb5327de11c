// An attribute that a filter is told by name: "name", "address.city", 0.
#pragma once

#include "llm/template/interpreter.h"
#include "llm/template/value.h"

namespace hearth::jinja {

class Lookup {
 public:
  // Null: the item itself. `otherwise`, if not None, stands for what is not there; texts become lower case
  // where case does not matter.
  explicit Lookup(const Value* attribute, Value otherwise = {}, bool ignores_case = false);

  Value operator()(Interpreter& in, const Value& item) const;

 private:
  List path_;
  Value otherwise_;
  bool ignores_case_;
};

}  // namespace hearth::jinja
