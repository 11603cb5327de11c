// Texts at which generation stops. What may be the beginning of one is held back until it is known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::llm {

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts);  // empty ones are ignored

  // More text; what of it is certain to come before a stop.
  std::string push(std::string_view text);
  bool found() const { return found_; }
  // What was held back, when no more text comes.
  std::string finish();

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace hearth::llm
