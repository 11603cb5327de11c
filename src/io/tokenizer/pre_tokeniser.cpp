// Cuts text into pieces.
#include "io/tokenizer/pre_tokeniser.h"

#include <optional>
#include <utility>

#include "hearth/error.h"
#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/normaliser.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

using Span = Pieces::Span;

// Positions have 32 bits.
void check_size(std::size_t size) {
  if (size > 0xffffffffu)
    throw ValueError("[tokenizer] the text is too long: more than 4 GiB after normalisation");
}

// Turns matches, and what is between them, into pieces.
class Cutter {
 public:
  Cutter(const SplitStep& step, std::vector<Span>& out) : step_(step), out_(out) {}

  void begin_piece() { last_ = Last::none; }

  void add(std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return;
    is_match ^= step_.invert;
    const Span span{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
    const auto before = std::exchange(last_, is_match ? Last::match : Last::other);
    bool extends = false;
    switch (step_.behaviour) {
      case SplitBehaviour::isolated:
        break;
      case SplitBehaviour::removed:
        if (is_match) return;
        break;
      case SplitBehaviour::merged_with_previous:
        extends = is_match && before == Last::other;
        break;
      case SplitBehaviour::merged_with_next:
        extends = !is_match && before == Last::match;
        break;
      case SplitBehaviour::contiguous:
        extends = before == last_;
        break;
    }
    if (extends)
      out_.back().end = span.end;
    else
      out_.push_back(span);
  }

 private:
  enum class Last { none, match, other };
  const SplitStep& step_;
  std::vector<Span>& out_;
  Last last_ = Last::none;
};

// Calls `change` with each piece as a string of its own, and makes the text of what it leaves.
template <typename Change>
void change_pieces(Pieces& pieces, Change change) {
  std::string text;
  for (auto& span : pieces.spans) {
    std::string piece(pieces.text.substr(span.begin, span.end - span.begin));
    change(piece, span.begin);
    span.begin = static_cast<std::uint32_t>(text.size());
    text += piece;
    check_size(text.size());
    span.end = static_cast<std::uint32_t>(text.size());
  }
  pieces.owned = std::move(text);
  pieces.text = pieces.owned;
}

}  // namespace

void Pieces::begin(std::string_view whole) {
  check_size(whole.size());
  text = whole;
  spans.clear();
  if (!whole.empty()) spans.push_back({0, static_cast<std::uint32_t>(whole.size())});
}

PreTokeniser::PreTokeniser(const std::vector<PreTokeniserStep>& steps, std::string_view source) {
  for (const auto& step : steps) {
    if (const auto* split = std::get_if<SplitStep>(&step))
      steps_.emplace_back(
          Split{*split, split->is_pattern ? std::make_unique<Pattern>(split->what, source) : nullptr});
    else
      std::visit(
          [&]<typename T>(const T& other) {
            if constexpr (!std::is_same_v<T, SplitStep>) steps_.emplace_back(other);
          },
          step);
  }
}

void PreTokeniser::Split::apply(Pieces& pieces) const {
  pieces.scratch.clear();
  Cutter cutter(step, pieces.scratch);
  std::optional<Pattern::Finder> finder;
  if (pattern) finder.emplace(*pattern);
  for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
    const auto piece = pieces[i];
    const std::size_t base = pieces.spans[i].begin;
    cutter.begin_piece();
    std::size_t done = 0;
    for (std::size_t from = 0; from < piece.size();) {
      std::optional<Match> match;
      if (finder)
        match = finder->find(piece, from);
      else if (const auto found = piece.find(step.what, from); found != piece.npos)
        match = Match{found, found + step.what.size()};
      if (!match) break;
      cutter.add(base + done, base + match->begin, false);
      cutter.add(base + match->begin, base + match->end, true);
      done = from = match->end;
      if (match->begin == match->end && from < piece.size()) from += utf8_size(piece[from]);
    }
    cutter.add(base + done, base + piece.size(), false);
  }
  pieces.spans.swap(pieces.scratch);
}

void PreTokeniser::cut(Pieces& pieces, bool at_start) const {
  for (const auto& step : steps_) {
    if (const auto* split = std::get_if<Split>(&step)) {
      split->apply(pieces);
    } else if (const auto* prefix = std::get_if<PrependStep>(&step)) {
      change_pieces(pieces, [&](std::string& piece, std::size_t begin) {
        prepend(*prefix, piece, at_start && begin == 0);
      });
    } else if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
      change_pieces(pieces,
                    [&](std::string& piece, std::size_t) { replace_all(piece, replace->what, replace->by); });
    } else {
      change_pieces(pieces, [](std::string& piece, std::size_t) { piece = to_byte_characters(piece); });
    }
  }
}

}  // namespace hearth::tokenizer
