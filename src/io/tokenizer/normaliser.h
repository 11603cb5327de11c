// Changes text before it is cut into pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

class Normaliser {
 public:
  // Throws Error where a step needs a library that this build does not have, FormatError for a bad table or
  // pattern.
  Normaliser(const std::vector<NormaliserStep>& steps, std::string_view source);

  bool changes_nothing() const { return steps_.empty(); }
  // Of valid UTF-8, which it stays. `at_start`: whether the fragment begins the text.
  std::string apply(std::string_view fragment, bool at_start) const;

 private:
  std::vector<std::function<void(std::string& text, bool at_start)>> steps_;
};

// What two steps do that pre-tokenisers have too.
void prepend(const PrependStep& step, std::string& text, bool at_start);
void replace_all(std::string& text, std::string_view what, std::string_view by);

}  // namespace hearth::tokenizer
