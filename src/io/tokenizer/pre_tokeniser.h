// Cuts text into the pieces that a model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/tokenizer/definition.h"
#include "io/tokenizer/pattern.h"

namespace hearth::tokenizer {

// A text and pieces of it, in order, none of them empty.
struct Pieces {
  std::string_view text;
  std::string owned;  // where `text` is when a step has changed it
  struct Span {
    std::uint32_t begin, end;
  };
  std::vector<Span> spans, scratch;

  void begin(std::string_view whole);
  std::string_view operator[](std::size_t i) const {
    return text.substr(spans[i].begin, spans[i].end - spans[i].begin);
  }
};

class PreTokeniser {
 public:
  PreTokeniser(const std::vector<PreTokeniserStep>& steps, std::string_view source);

  // Cuts pieces.text, which is valid UTF-8 of less than 4 GiB. `at_start`: whether it begins the whole text.
  void cut(Pieces& pieces, bool at_start) const;

 private:
  struct Split {
    SplitStep step;
    std::unique_ptr<Pattern> pattern;  // null: a string
    void apply(Pieces& pieces) const;
  };
  using Step = std::variant<Split, PrependStep, ReplaceStep, MapBytesStep>;
  std::vector<Step> steps_;
};

}  // namespace hearth::tokenizer
