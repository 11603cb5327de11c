// Regular expressions over UTF-8, by PCRE2. In a build without it, compiling one throws Error.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

struct Match {
  std::size_t begin = 0, end = 0;
};

class Pattern {
 public:
  // Throws FormatError for what is no pattern; `source` names the file it is from.
  Pattern(const std::string& text, std::string_view source);

  // Finds matches in one text after another. Not for several threads at once.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    ~Finder();
    // The first match at or after `from` in valid UTF-8. Throws Error if the pattern takes too long on it.
    std::optional<Match> find(std::string_view text, std::size_t from);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace hearth::tokenizer
