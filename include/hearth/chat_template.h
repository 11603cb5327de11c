// Chat templates: the text a model was trained to read, made from the messages of a conversation.
//
// A template is a Jinja program that comes with the model. Hearth runs it as Python's Jinja2 does in the
// environment of Hugging Face's apply_chat_template: same text, byte for byte, and an error where Jinja2 has
// one. What a template may use is bounded, for it comes from the internet.
//
// This is the one public header that needs nlohmann-json.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hearth/template_error.h"

namespace hearth {

struct ChatOptions {
  nlohmann::ordered_json tools;       // a list of function schemas; null: none
  nlohmann::ordered_json documents;   // a list of {"title", "text"}; null: none
  bool add_generation_prompt = true;  // end where the assistant is to speak
  std::string bos_token, eos_token;   // undefined in the template where empty
  nlohmann::ordered_json variables;   // more of them, as {"enable_thinking": false}; null: none
  // What strftime_now() of the template takes for the local time; the clock's, if not given.
  std::optional<std::chrono::local_seconds> now;
};

// A parsed template. Rendering changes nothing in it and may be done from several threads at once.
class ChatTemplate {
 public:
  // Throws TemplateError for a mistake in `source`.
  explicit ChatTemplate(std::string source, const TemplateLimits& limits = {});

  // `messages` is a list of {"role", "content", ...}, as of the chat interface of OpenAI. Reasoning, given as
  // "reasoning_content", "reasoning" or "thinking", is found by the template under the first and the last of
  // these names, whichever it reads. Throws TemplateError, and ValueError for messages that are none.
  std::string render(const nlohmann::ordered_json& messages, const ChatOptions& options) const;

  // With the variables of an object and no others.
  std::string render(const nlohmann::ordered_json& variables,
                     std::optional<std::chrono::local_seconds> now = {}) const;

  const std::string& source() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace hearth
