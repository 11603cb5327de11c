// Changes text before it is cut into pieces.
#include "io/tokenizer/normaliser.h"

#include <memory>

#include "io/tokenizer/character_map.h"
#include "io/tokenizer/pattern.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {

void prepend(const PrependStep& step, std::string& text, bool at_start) {
  if (text.empty() || (step.only_at_start && !at_start)) return;
  if (step.only_if_missing && text.starts_with(step.text)) return;
  text.insert(0, step.text);
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  auto found = what.empty() ? text.npos : text.find(what);
  if (found == text.npos) return;
  std::string result;
  result.reserve(text.size() + 64);
  std::size_t done = 0;
  for (; found != text.npos; found = text.find(what, done)) {
    result.append(text, done, found - done);
    result += by;
    done = found + what.size();
  }
  result.append(text, done);
  text = std::move(result);
}

namespace {

using Change = std::function<void(std::string&, bool)>;

// What is between matches, and `by` for each.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view by) {
  std::string result;
  Pattern::Finder finder(pattern);
  std::size_t done = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const auto match = finder.find(text, from);
    if (!match) break;
    result += text.substr(done, match->begin - done);
    result += by;
    done = from = match->end;
    if (match->begin == match->end) from += from < text.size() ? utf8_size(text[from]) : 1;
  }
  return result += text.substr(done);
}

// The part of the text without white space at the ends.
std::string_view stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_white_space(read_valid_utf8(text, 0)))
    text.remove_prefix(utf8_size(text[0]));
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); i += utf8_size(text[i]))
    if (!right || !is_white_space(read_valid_utf8(text, i))) end = i + utf8_size(text[i]);
  return text.substr(0, end);
}

std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || (!result.empty() && result.back() != ' ')) result += c;
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// Ideographs that BERT takes as words.
bool is_ideograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

std::string bert_cleaned(std::string_view text, const BertCleanStep& step) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); i += utf8_size(text[i])) {
    const auto c = read_valid_utf8(text, i);
    const bool line_control = c == '\t' || c == '\n' || c == '\r';
    if (step.clean && !line_control && (c == replacement_character || is_control_character(c))) continue;
    if (step.clean && is_white_space(c)) {
      result += ' ';
    } else if (step.space_around_ideographs && is_ideograph(c)) {
      result += ' ';
      append_utf8(result, c);
      result += ' ';
    } else {
      append_utf8(result, c);
    }
  }
  return result;
}

struct Compile {
  std::string_view source;

  Change operator()(const PrependStep& step) const {
    return [step](std::string& text, bool at_start) { prepend(step, text, at_start); };
  }
  Change operator()(const ReplaceStep& step) const {
    if (!step.is_pattern) return [step](std::string& text, bool) { replace_all(text, step.what, step.by); };
    return [pattern = Pattern(step.what, source), by = step.by](std::string& text, bool) {
      text = replaced(text, pattern, by);
    };
  }
  Change operator()(const NormalFormStep& step) const {
    require_unicode_tables(source);
    return [form = step.form](std::string& text, bool) { text = normalised(text, form); };
  }
  Change operator()(const LowercaseStep&) const {
    require_unicode_tables(source);
    return [](std::string& text, bool) { text = lowercased(text); };
  }
  Change operator()(const StripMarksStep& step) const {
    require_unicode_tables(source);
    return [step](std::string& text, bool) { text = without_marks(text, step.spacing_too); };
  }
  Change operator()(const StripStep& step) const {
    return [step](std::string& text, bool) { text = std::string(stripped(text, step.left, step.right)); };
  }
  Change operator()(const CollapseSpacesStep&) const {
    return [](std::string& text, bool) { text = with_single_spaces(text); };
  }
  Change operator()(const CharacterMapStep& step) const {
    return [map = std::make_shared<CharacterMap>(step.table, source)](std::string& text, bool) {
      text = map->apply(text);
    };
  }
  Change operator()(const BertCleanStep& step) const {
    require_unicode_tables(source);
    return [step](std::string& text, bool) { text = bert_cleaned(text, step); };
  }
};

}  // namespace

Normaliser::Normaliser(const std::vector<NormaliserStep>& steps, std::string_view source) {
  for (const auto& step : steps) steps_.push_back(std::visit(Compile{source}, step));
}

std::string Normaliser::apply(std::string_view fragment, bool at_start) const {
  std::string text(fragment);
  for (const auto& step : steps_) step(text, at_start);
  return text;
}

}  // namespace hearth::tokenizer
