// The chat and completion interfaces of OpenAI: their JSON into requests, results into their JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/chat_template.h"
#include "hearth/error.h"
#include "hearth/llm.h"

namespace hearth::llm::openai {

// A request that is refused. `field`: which of its fields is to blame, if one is.
class BadRequest : public ValueError {
 public:
  BadRequest(const std::string& message, std::string field) : ValueError(message), field_(std::move(field)) {}
  const std::string& field() const noexcept { return field_; }

 private:
  std::string field_;
};

struct Call {
  std::vector<TokenId> prompt;
  GenerateOptions options;
  bool chat = false, stream = false, usage_in_stream = false;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
};

// What all calls share. Safe from any thread.
class Interface {
 public:
  // `defaults`: of what a request does not say. `chat_template`: empty for none.
  Interface(const Model& model, std::string name, GenerateOptions defaults, const std::string& chat_template);

  // Throw BadRequest; TemplateError for messages that the model's template refuses.
  Call chat(std::string_view body) const;
  Call completion(std::string_view body) const;

  // Answers, as text of JSON. `event` is a piece of a streamed one; `last_event` its end.
  std::string models() const;
  std::string answer(const Call& call, const GenerateResult& result) const;
  std::string first_event(const Call& call) const;  // empty where there is none
  std::string event(const Call& call, std::string_view text) const;
  std::string last_event(const Call& call, const GenerateResult& result) const;
  std::string usage_event(const Call& call, const GenerateResult& result) const;  // empty if not asked for

 private:
  using Json = nlohmann::ordered_json;
  Call call(const Json& body, bool chat) const;
  std::vector<TokenId> chat_prompt(const Json& body) const;
  std::vector<TokenId> text_prompt(const Json& body) const;
  Json head(const Call& call, std::string_view kind) const;
  Json stream_piece(const Call& call, Json choice) const;
  Json log_probabilities(const Call& call, const GenerateResult& result) const;

  Model model_;
  std::string name_;
  GenerateOptions defaults_;
  std::optional<ChatTemplate> template_;
  std::int64_t started_;
};

// {"error": {...}}
std::string error_body(std::string_view message, std::string_view type, std::string_view field = {});

}  // namespace hearth::llm::openai
