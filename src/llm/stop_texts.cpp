// Stop texts.
#include "llm/stop_texts.h"

#include <algorithm>
#include <utility>

namespace hearth::llm {

StopTexts::StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::erase(texts_, std::string());
}

std::string StopTexts::push(std::string_view text) {
  if (found_) return {};
  held_ += text;
  std::size_t stop = std::string::npos;
  for (const std::string& candidate : texts_) stop = std::min(stop, held_.find(candidate));
  if (stop != std::string::npos) {
    found_ = true;
    std::string certain = held_.substr(0, stop);
    held_.clear();
    return certain;
  }
  // The longest end of the text that some stop begins with.
  std::size_t open = 0;
  for (const std::string& candidate : texts_)
    for (std::size_t length = std::min(held_.size(), candidate.size() - 1); length > open; --length)
      if (held_.ends_with(std::string_view(candidate).substr(0, length))) open = length;
  std::string certain = held_.substr(0, held_.size() - open);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopTexts::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

}  // namespace hearth::llm
