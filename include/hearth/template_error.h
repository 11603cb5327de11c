// How reading and rendering a chat template ends otherwise (hearth/chat_template.h), without JSON.
#pragma once

#include <cstddef>
#include <string>

#include "hearth/error.h"

namespace hearth {

// A template that cannot be parsed or rendered. what() is "[chat_template] line 3: 'role' is undefined".
class TemplateError : public Error {
 public:
  TemplateError(std::size_t line, const std::string& message, bool raised);
  std::size_t line() const noexcept { return line_; }               // in the template, from 1
  const std::string& message() const noexcept { return message_; }  // without the line
  // Whether the template itself refused, with raise_exception(message): a fault of the conversation.
  bool raised() const noexcept { return raised_; }

 private:
  std::size_t line_;
  std::string message_;
  bool raised_;
};

// What one rendering may use before it ends in a TemplateError.
struct TemplateLimits {
  std::size_t steps = 20'000'000;  // of the interpreter: a second or so
  std::size_t memory = 256 << 20;  // bytes of all values made on the way, kept or not
  std::size_t output = 64 << 20;   // bytes
};

}  // namespace hearth
