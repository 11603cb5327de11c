#include "llm/answer_reader.h"

#include <algorithm>
#include <array>

#include "base/trimmed.h"
#include "llm/marks.h"

namespace hearth::llm {
namespace {

constexpr std::string_view think_begin = "<think>", think_end = "</think>";
constexpr std::string_view channel = "<|channel|>", message = "<|message|>", recipient = "to=";
constexpr std::string_view functions = "functions.";
// What a message of a channel ends with; the next may follow.
constexpr std::string_view start = "<|start|>";
constexpr std::array<std::string_view, 4> message_ends = {"<|end|>", start, "<|call|>", "<|return|>"};
constexpr std::size_t longest_header = 1024;

bool may_become(std::string_view text, std::string_view mark) {
  return text.substr(0, mark.size()) == mark.substr(0, text.size());
}

// The word behind a mark; empty where there is none.
std::string_view word_after(std::string_view text, std::string_view mark) {
  const auto at = text.find(mark);
  if (at == text.npos) return {};
  const std::string_view rest = text.substr(at + mark.size());
  return rest.substr(0, std::min(rest.find_first_of(" \n\t<"), rest.size()));
}

}  // namespace

AnswerFormat answer_format(const Tokenizer& tokenizer, std::string_view chat_template) {
  if (tokenizer.find(channel) && tokenizer.find(message) && chat_template.find(channel) != chat_template.npos)
    return AnswerFormat::channels;
  return chat_template.find(think_end) != chat_template.npos ? AnswerFormat::think : AnswerFormat::plain;
}

bool begins_with_thoughts(const Tokenizer& tokenizer, std::span<const TokenId> prompt, AnswerFormat format) {
  if (format != AnswerFormat::think) return false;
  constexpr std::size_t enough = 16;  // tokens for the mark and white space
  const std::string end = tokenizer.decode(prompt.last(std::min(prompt.size(), enough)));
  return trimmed(end).ends_with(think_begin);
}

AnswerReader::AnswerReader(AnswerFormat format, bool begins_with_thoughts)
    : format_(format), state_(begins_with_thoughts ? State::thoughts : State::beginning) {}

std::string_view AnswerReader::end_of_thoughts() const {
  return format_ == AnswerFormat::think && state_ == State::thoughts ? think_end : std::string_view();
}

AnswerParts AnswerReader::add(std::string_view piece) {
  AnswerParts parts;
  kept_ += piece;
  while (step(parts, false)) {
  }
  return parts;
}

AnswerParts AnswerReader::finish() {
  AnswerParts parts;
  while (step(parts, true)) {
  }
  if (state_ == State::call) parts.calls.push_back(std::move(call_));
  return parts;
}

// False: nothing more can be said of what there is.
bool AnswerReader::step(AnswerParts& parts, bool last) {
  if (state_ == State::beginning) return begin(last);
  if (state_ == State::header) return read_header(last);
  return read_body(parts, last);
}

bool AnswerReader::begin(bool last) {
  const auto go_on = [&](State state) {
    state_ = state;
    return true;
  };
  if (format_ == AnswerFormat::plain) return go_on(State::text);
  const std::string_view text = trimmed(kept_);
  if (text.empty()) return false;
  if (format_ == AnswerFormat::think) {
    if (text.starts_with(think_begin)) {
      kept_.erase(0, kept_.find(think_begin) + think_begin.size());
      return go_on(State::thoughts);
    }
    return (!last && may_become(text, think_begin)) ? false : go_on(State::text);
  }
  for (const std::string_view mark : {channel, start, message, recipient}) {
    if (text.starts_with(mark)) return go_on(State::header);
    if (!last && may_become(text, mark)) return false;
  }
  return go_on(State::text);
}

bool AnswerReader::read_header(bool last) {
  const auto end = kept_.find(message);
  if (end == kept_.npos) {
    if (!last && kept_.size() <= longest_header) return false;
    if (const auto at = kept_.find(start); at != kept_.npos) kept_.erase(at, start.size());
    state_ = State::text;  // it was none
    return true;
  }
  const std::string_view header = std::string_view(kept_).substr(0, end);
  std::string_view to = word_after(header, recipient);
  if (to.starts_with(functions)) to.remove_prefix(functions.size());
  if (!to.empty()) {
    call_ = {std::string(to), ""};
    state_ = State::call;
  } else {
    state_ = word_after(header, channel) == "analysis" ? State::thoughts : State::text;
  }
  kept_.erase(0, end + message.size());
  return true;
}

bool AnswerReader::read_body(AnswerParts& parts, bool last) {
  std::size_t end = kept_.npos, held = 0, past = 0;
  const auto look_for = [&](std::string_view mark) {
    if (const auto at = kept_.find(mark); at < end) end = at, past = mark == start ? at : at + mark.size();
    if (!last) held = std::max(held, begun(kept_, mark));
  };
  if (format_ == AnswerFormat::channels)
    for (const std::string_view mark : message_ends) look_for(mark);
  else if (state_ == State::thoughts)
    look_for(think_end);
  if (end == kept_.npos) {
    give(parts, kept_.size() - held);
    return false;
  }
  give(parts, end);
  kept_.erase(0, past - end);  // but for what begins the next
  if (state_ == State::call) parts.calls.push_back(std::move(call_));
  state_ = format_ == AnswerFormat::channels ? State::beginning : State::text;
  after_mark_ = true;
  return true;
}

// The first so many bytes of what is kept.
void AnswerReader::give(AnswerParts& parts, std::size_t count) {
  std::string& to = state_ == State::call       ? call_.arguments
                    : state_ == State::thoughts ? parts.thoughts
                                                : parts.text;
  std::size_t from = 0;
  if (after_mark_ && format_ == AnswerFormat::think)
    from = std::min(kept_.find_first_not_of(" \t\r\n"), count);
  if (from < count) after_mark_ = false;
  to.append(kept_, from, count - from);
  kept_.erase(0, count);
}

}  // namespace hearth::llm
