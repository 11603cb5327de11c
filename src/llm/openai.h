// The interfaces of OpenAI for chats, completions and embeddings: their JSON into requests, results into
// their JSON.
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
#include "llm/answer_reader.h"
#include "llm/tool_calls.h"

namespace hearth::llm::openai {

// A request that is refused. `field`: which of its fields is to blame, if one is. `code`: OpenAI's name of
// what is wrong, where programs look for it.
class BadRequest : public ValueError {
 public:
  BadRequest(const std::string& message, std::string field, std::string code = {})
      : ValueError(message), field_(std::move(field)), code_(std::move(code)) {}
  const std::string& field() const noexcept { return field_; }
  const std::string& code() const noexcept { return code_; }

 private:
  std::string field_, code_;
};

// Of each prompt several answers may be wanted. A choice is one answer to one prompt; those to the first
// prompt come first.
struct Call {
  std::vector<std::vector<TokenId>> prompts;
  std::size_t answers = 1;  // to each prompt
  GenerateOptions options;
  bool chat = false, stream = false, usage_in_stream = false;
  bool echo = false;  // the answer begins with the prompt
  bool embeds = false,
       base64 = false;             // the prompts are to be embedded; as text that is shorter than numbers
  std::vector<std::string> tools;  // names of those that may be called
  AnswerFormat format = AnswerFormat::plain;
  bool begins_with_thoughts = false;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970

  std::size_t choices() const { return prompts.size() * answers; }
  const std::vector<TokenId>& prompt_of(std::size_t choice) const { return prompts[choice / answers]; }
  // The answers to a prompt differ, by their seeds where there is one.
  GenerateOptions options_of(std::size_t choice) const;
};

// What all calls share. Safe from any thread.
class Interface {
 public:
  // `defaults`: of what a request does not say. `chat_template`: empty for none.
  Interface(const Model& model, std::string name, GenerateOptions defaults, const std::string& chat_template);

  // Throw BadRequest; TemplateError for messages that the model's template refuses.
  Call chat(std::string_view body) const;
  Call completion(std::string_view body) const;
  Call embedding(std::string_view body) const;

  // Answers, as text of JSON.
  std::string models() const;
  std::optional<std::string> model(std::string_view name) const;  // none: there is no such model
  std::string answer(const Call& call, const std::vector<GenerateResult>& results) const;  // of each choice

 private:
  friend class AnswerStream;
  using Json = nlohmann::ordered_json;
  Call call(const Json& body, bool chat) const;
  std::vector<TokenId> chat_prompt(const Json& body, bool with_tools) const;
  std::vector<std::vector<TokenId>> text_prompts(const Json& body, const char* field) const;
  std::vector<TokenId> text_prompt(const Json& given, const char* field) const;
  void check_lengths(const Call& call, std::int64_t most, const char* field) const;
  std::string embeddings(const Call& call, const std::vector<GenerateResult>& results) const;
  Json choice(const Call& call, std::size_t index, const GenerateResult& result) const;
  Json model_json() const;
  Json head(const Call& call, std::string_view kind) const;
  Json log_probabilities(const Call& call, std::span<const LogProbabilities> of_tokens) const;
  Json echoed_log_probabilities(const Call& call, std::size_t choice, const GenerateResult& result) const;
  std::string echoed_text(const Call& call, std::size_t choice) const;

  Model model_;
  std::string name_;
  GenerateOptions defaults_;
  std::optional<ChatTemplate> template_;
  AnswerFormat format_ = AnswerFormat::plain;  // of chats
  std::int64_t started_;
};

// A choice in pieces: texts of JSON, each to be sent as an event. Interface and call outlive it.
class AnswerStream {
 public:
  AnswerStream(const Interface& interface, const Call& call, std::size_t choice = 0)
      : interface_(interface),
        call_(call),
        choice_(choice),
        reader_(call.format, call.begins_with_thoughts) {}

  std::vector<std::string> begin();
  // Log-probabilities of tokens go with the next text that is sent, or the end.
  std::vector<std::string> add(std::string_view text,
                               std::optional<LogProbabilities> log_probabilities = std::nullopt);
  std::vector<std::string> end(const GenerateResult& result);
  // What comes behind the last of all choices.
  static std::vector<std::string> usage(const Interface& interface, const Call& call,
                                        const std::vector<GenerateResult>& results);

 private:
  std::string event(nlohmann::ordered_json delta, const char* reason = nullptr);

  const Interface& interface_;
  const Call& call_;
  std::size_t choice_;
  std::vector<std::string> events_of(const AnswerParts& parts);

  AnswerReader reader_;
  AnswerParts answer_;  // so far
  ToolCallFilter filter_;
  std::vector<LogProbabilities> kept_;  // of tokens that no event has told of
};

// {"error": {...}}
std::string error_body(std::string_view message, std::string_view type, std::string_view field = {},
                       std::string_view code = {});

}  // namespace hearth::llm::openai
