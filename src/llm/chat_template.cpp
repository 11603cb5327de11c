// The public face of the template engine.
#include "hearth/chat_template.h"

#include <fmt/format.h>

#include <array>

#include "base/unicode.h"
#include "llm/template/interpreter.h"
#include "llm/template/parser.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_source = 4 << 20;

// A message's reasoning has had several names; templates read one of the first two.
constexpr std::array<const char*, 3> reasoning_names = {"reasoning_content", "thinking", "reasoning"};

Json with_reasoning(const Json& message) {
  for (const auto* name : reasoning_names) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    Json out = Json::object();
    out["thinking"] = *found;
    for (const auto& [key, value] : message.items()) out[key] = value;
    out["reasoning_content"] = *found;
    return out;
  }
  return message;
}

Json checked_messages(const Json& messages) {
  if (!messages.is_array())
    throw ValueError(fmt::format("[chat_template] messages must be a list; found {}", messages.type_name()));
  Json out = Json::array();
  for (const auto& message : messages) {
    if (!message.is_object())
      throw ValueError(fmt::format("[chat_template] message {} must be an object; found {}", out.size(),
                                   message.type_name()));
    out.push_back(with_reasoning(message));
  }
  return out;
}

}  // namespace

TemplateError::TemplateError(std::size_t line, const std::string& message, bool raised)
    : Error(fmt::format("[chat_template] line {}: {}", line, message)),
      line_(line),
      message_(message),
      raised_(raised) {}

struct ChatTemplate::State {
  std::string source;
  TemplateLimits limits;
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::string source, const TemplateLimits& limits) {
  if (source.size() > longest_source)
    throw TemplateError(
        1, fmt::format("{} bytes of template; at most {} are allowed", source.size(), longest_source), false);
  if (!unicode::is_valid(source)) throw TemplateError(1, "the template is not UTF-8", false);
  auto parsed = jinja::parse(source);
  state_ = std::make_shared<const State>(State{std::move(source), limits, std::move(parsed)});
}

std::string ChatTemplate::render(const Json& messages, const ChatOptions& options) const {
  Json variables = Json::object();
  variables["messages"] = checked_messages(messages);
  variables["tools"] = options.tools;
  variables["documents"] = options.documents;
  variables["add_generation_prompt"] = options.add_generation_prompt;
  if (!options.bos_token.empty()) variables["bos_token"] = options.bos_token;
  if (!options.eos_token.empty()) variables["eos_token"] = options.eos_token;
  if (!options.variables.is_null()) {
    if (!options.variables.is_object())
      throw ValueError(fmt::format("[chat_template] variables must be an object; found {}",
                                   options.variables.type_name()));
    for (const auto& [name, value] : options.variables.items()) variables[name] = value;
  }
  return render(variables, options.now);
}

std::string ChatTemplate::render(const Json& variables, std::optional<std::chrono::local_seconds> now) const {
  if (!variables.is_object())
    throw ValueError(
        fmt::format("[chat_template] variables must be an object; found {}", variables.type_name()));
  return jinja::Interpreter(state_->parsed, state_->limits, now).run(variables);
}

const std::string& ChatTemplate::source() const { return state_->source; }

}  // namespace hearth
