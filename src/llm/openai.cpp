// JSON of OpenAI's interfaces.
#include "llm/openai.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <limits>
#include <random>
#include <span>

#include "base/trimmed.h"
#include "llm/bounded_json.h"
#include "llm/chat_tokens.h"
#include "llm/forced_calls.h"

namespace hearth::llm::openai {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void refuse(const char* field, std::string_view what) {
  throw BadRequest(fmt::format("{}: {}", field, what), field);
}

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) {
      return k < bytes.size() ? std::to_integer<std::uint32_t>(bytes[k]) : 0u;
    };
    const std::uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : digits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

// The fields of an object. One that is null counts as not given.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void read(const char* name, double& value) const {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number()) refuse(name, "not a number");
    value = field->get<double>();
  }
  void read(const char* name, std::int64_t& value) const {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number_integer()) refuse(name, "not a whole number");
    if (field->is_number_unsigned() && field->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      refuse(name, "too large");
    value = field->get<std::int64_t>();
  }
  bool flag(const char* name) const {
    const Json* field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) refuse(name, "neither true nor false");
    return field->get<bool>();
  }

 private:
  const Json& object_;
};

// An object; `what` it is, and the field that it is in, are for the error.
Json parsed(std::string_view text, const char* what = "the body", const char* field = "") {
  try {
    Json json = parse_bounded(text);
    if (json.is_object()) return json;
  } catch (const FormatError& error) {
    throw BadRequest(fmt::format("{}: {}", what, error.what()), field);
  }
  throw BadRequest(fmt::format("{} is not an object", what), field);
}

void read_stops(const Fields& fields, std::vector<std::string>& stop) {
  const Json* field = fields.find("stop");
  if (field == nullptr) return;
  stop.clear();
  // They are looked for at every token.
  constexpr std::size_t most = 16, longest = 1024;
  const auto add = [&](const Json& text) {
    if (!text.is_string()) refuse("stop", "neither a text nor a list of texts");
    stop.push_back(text.get<std::string>());
    if (stop.size() > most || stop.back().size() > longest)
      refuse("stop", fmt::format("at most {} texts of at most {} bytes", most, longest));
  };
  if (field->is_array())
    for (const Json& text : *field) add(text);
  else
    add(*field);
}

void read_bias(const Fields& fields, std::map<TokenId, double>& bias, std::int64_t tokens) {
  const Json* field = fields.find("logit_bias");
  if (field == nullptr) return;
  if (!field->is_object()) refuse("logit_bias", "not an object");
  for (const auto& [key, value] : field->items()) {
    TokenId token = -1;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (code != std::errc() || end != key.data() + key.size() || token < 0 || token >= tokens)
      refuse("logit_bias", fmt::format("'{}' is no token", key));
    if (!value.is_number()) refuse("logit_bias", "not a number");
    // OpenAI's -100 is a ban.
    const double by = value.get<double>();
    bias[token] = by <= -100 ? -std::numeric_limits<double>::infinity() : by;
  }
}

std::optional<Grammar> grammar_of(const Fields& fields) {
  if (const Json* rules = fields.find("grammar")) {
    if (!rules->is_string()) refuse("grammar", "not a text");
    return Grammar::parse(rules->get<std::string>());
  }
  if (const Json* schema = fields.find("json_schema")) return Grammar::from_json_schema(schema->dump());
  const Json* format = fields.find("response_format");
  if (format == nullptr) return std::nullopt;
  if (!format->is_object() || !format->contains("type")) refuse("response_format", "has no type");
  const Json& type = (*format)["type"];
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    const auto schema = format->find("schema");
    return Grammar::from_json_schema(schema == format->end() ? R"({"type": "object"})" : schema->dump());
  }
  if (type != "json_schema") refuse("response_format", "known types are text, json_object and json_schema");
  const auto schema = format->find("json_schema");
  if (schema == format->end() || !schema->is_object() || !schema->contains("schema"))
    refuse("response_format", "json_schema has no schema");
  return Grammar::from_json_schema((*schema)["schema"].dump());
}

// What OpenAI has no names for is called as by llama.cpp's server.
void read_llama_cpp(const Fields& fields, GenerateOptions& options, std::int64_t context) {
  SamplingOptions& sampling = options.sampling;
  fields.read("repeat_penalty", sampling.repetition_penalty);
  fields.read("repeat_last_n", sampling.penalty_window);
  if (sampling.penalty_window == -1) sampling.penalty_window = context;
  std::int64_t mirostat = sampling.mirostat;
  fields.read("mirostat", mirostat);
  if (mirostat < 0 || mirostat > 2) refuse("mirostat", "0 to 2");
  sampling.mirostat = static_cast<int>(mirostat);
  fields.read("mirostat_tau", sampling.mirostat_target);
  fields.read("mirostat_eta", sampling.mirostat_rate);
  if (fields.find("ignore_eos") != nullptr) options.ignore_end = fields.flag("ignore_eos");
}

std::string random_name(std::string_view prefix) {
  thread_local std::mt19937_64 numbers{std::random_device{}()};
  return fmt::format("{}{:016x}", prefix, numbers());
}

std::vector<std::string> tool_names(const Json& tools) {
  if (!tools.is_array()) refuse("tools", "not a list");
  std::vector<std::string> names;
  for (const Json& tool : tools) {
    const Json* function = tool.is_object() ? Fields(tool).find("function") : nullptr;
    const Json* name =
        function != nullptr && function->is_object() ? Fields(*function).find("name") : nullptr;
    if (name == nullptr || !name->is_string()) refuse("tools", "each needs a function with a name");
    names.push_back(name->get<std::string>());
  }
  return names;
}

// The tools of which one must be called: none where the model may choose.
std::vector<std::string> forced_tools(const Fields& fields, const std::vector<std::string>& tools) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto" || *choice == "none") return {};
  if (tools.empty()) refuse("tool_choice", "there are no tools");
  if (*choice == "required") return tools;
  const Json* function = choice->is_object() ? Fields(*choice).find("function") : nullptr;
  const Json* name = function != nullptr && function->is_object() ? Fields(*function).find("name") : nullptr;
  if (name == nullptr || !name->is_string())
    refuse("tool_choice", "known are auto, none, required and a function with a name");
  if (std::find(tools.begin(), tools.end(), name->get<std::string>()) == tools.end())
    refuse("tool_choice", fmt::format("'{}' is none of the tools", name->get<std::string>()));
  return {name->get<std::string>()};
}

// Arguments of calls come back as text of JSON; templates take them apart.
void read_arguments(Json& messages) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls") || !message["tool_calls"].is_array())
      continue;
    for (Json& call : message["tool_calls"]) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      Json& function = call["function"];
      if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
      const std::string text = function["arguments"].get<std::string>();
      function["arguments"] = text.empty() ? Json::object() : parsed(text, "arguments of a tool", "messages");
    }
  }
}

void append(AnswerParts& to, const AnswerParts& more) {
  to.thoughts += more.thoughts;
  to.text += more.text;
  to.calls.insert(to.calls.end(), more.calls.begin(), more.calls.end());
}

// Calls of tools that there are: those that the format marks, and those in the text.
ToolAnswer calls_of(const AnswerParts& parts, const std::vector<std::string>& tools) {
  if (tools.empty()) return {parts.text, {}};
  ToolAnswer answer = take_tool_calls(parts.text, tools);
  for (const ToolCall& call : parts.calls)
    if (std::find(tools.begin(), tools.end(), call.name) != tools.end())
      answer.calls.push_back({call.name, trimmed(call.arguments).empty() ? "{}" : call.arguments});
  return answer;
}

Json calls_json(const std::vector<ToolCall>& calls, bool indexed) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    Json entry = Json::object();
    if (indexed) entry["index"] = list.size();
    entry["id"] = random_name("call_");
    entry["type"] = "function";
    entry["function"] = {{"name", call.name}, {"arguments", call.arguments}};
    list.push_back(std::move(entry));
  }
  return list;
}

// What is missing or is no text, a template would write as something: "None", say.
void check_messages(const Json& messages) {
  for (const Json& message : messages) {
    if (!message.is_object()) refuse("messages", "each must be an object");
    const Fields fields(message);
    const Json *role = fields.find("role"), *content = fields.find("content");
    if (role == nullptr || !role->is_string()) refuse("messages", "each needs a role");
    if (content == nullptr ? *role != "assistant" : !content->is_string() && !content->is_array())
      refuse("messages", "each needs a content, which is a text or a list of parts");
  }
}

// Texts of a message may come in parts.
void join_parts(Json& messages) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    std::string text;
    for (const Json& part : message["content"]) {
      if (!part.is_object() || !part.contains("text") || !part["text"].is_string())
        refuse("messages", "only parts of type text can be read");
      text += part["text"].get<std::string>();
    }
    message["content"] = text;
  }
}

// OpenAI's newer name for who says how the model should behave; few templates know it.
void rename_developers(Json& messages, const std::string& chat_template) {
  if (chat_template.find("developer") != std::string::npos) return;
  for (Json& message : messages)
    if (message["role"] == "developer") message["role"] = "system";
}

const char* reason_name(FinishReason reason) {
  return reason == FinishReason::length || reason == FinishReason::context ? "length" : "stop";
}

// A prompt counts once, however many answers there are to it.
Json usage_of(const Call& call, const std::vector<GenerateResult>& results) {
  std::int64_t read = 0, reused = 0, made = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    made += static_cast<std::int64_t>(results[i].tokens.size());
    if (i % call.answers != 0) continue;
    read += results[i].prompt_tokens;
    reused += results[i].reused_tokens;
  }
  return {{"prompt_tokens", read},
          {"completion_tokens", made},
          {"total_tokens", read + made},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

}  // namespace

GenerateOptions Call::options_of(std::size_t choice) const {
  GenerateOptions own = options;
  std::uint64_t& seed = own.sampling.seed;
  if (seed == 0) return own;  // a new one each time
  const std::uint64_t sum = seed + choice % answers;
  seed = sum < seed ? sum + 1 : sum;  // past the end of the numbers 0 is left out
  return own;
}

Interface::Interface(const Model& model, std::string name, GenerateOptions defaults,
                     const std::string& chat_template)
    : model_(model), name_(std::move(name)), defaults_(std::move(defaults)), started_(seconds_now()) {
  if (chat_template.empty()) return;
  template_.emplace(chat_template);
  format_ = answer_format(model_.tokenizer(), chat_template);
}

Call Interface::chat(std::string_view body) const { return call(parsed(body), true); }
Call Interface::completion(std::string_view body) const { return call(parsed(body), false); }

Call Interface::embedding(std::string_view body) const {
  const Json json = parsed(body);
  const Fields fields(json);
  Call call;
  call.embeds = true;
  if (const Json* format = fields.find("encoding_format")) {
    if (*format != "float" && *format != "base64") refuse("encoding_format", "float or base64");
    call.base64 = *format == "base64";
  }
  std::int64_t width = model_.config().width;
  fields.read("dimensions", width);
  if (width != model_.config().width)
    refuse("dimensions", fmt::format("this model has {}", model_.config().width));
  call.prompts = text_prompts(json, "input");
  constexpr std::size_t most_texts = 2048;
  if (call.prompts.size() > most_texts) refuse("input", fmt::format("more than {} texts", most_texts));
  for (const std::vector<TokenId>& prompt : call.prompts)
    if (prompt.empty()) refuse("input", "an empty text");
  check_lengths(call, model_.context(), "input");
  return call;
}

void Interface::check_lengths(const Call& call, std::int64_t most, const char* field) const {
  for (const std::vector<TokenId>& prompt : call.prompts)
    if (static_cast<std::int64_t>(prompt.size()) > most)
      throw BadRequest(fmt::format("the prompt has {} tokens, the maximum context length is {} tokens",
                                   prompt.size(), model_.context()),
                       field, "context_length_exceeded");
}

Call Interface::call(const Json& body, bool chat) const {
  const Fields fields(body);
  Call call;
  call.chat = chat;
  call.options = defaults_;
  GenerateOptions& options = call.options;
  constexpr std::int64_t most_answers = 128;
  std::int64_t answers = 1;
  fields.read("n", answers);
  if (answers < 1 || answers > most_answers) refuse("n", fmt::format("1 to {}", most_answers));
  call.answers = static_cast<std::size_t>(answers);
  for (const char* unknown : {"suffix", "audio", "prediction"})
    if (const Json* field = fields.find(unknown); field != nullptr && *field != false && *field != "")
      refuse(unknown, "not known here");
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    fields.read(name, options.most_tokens);
    if (fields.find(name) != nullptr && options.most_tokens < -1) refuse(name, "negative; -1: no limit");
  }
  SamplingOptions& sampling = options.sampling;
  fields.read("temperature", sampling.temperature);
  fields.read("top_p", sampling.top_p);
  if (sampling.top_p == 0) sampling.top_p = std::numeric_limits<double>::min();  // the best token alone
  fields.read("top_k", sampling.top_k);
  if (sampling.top_k == -1) sampling.top_k = 0;  // elsewhere that is all of them
  fields.read("min_p", sampling.min_p);
  fields.read("typical_p", sampling.typical_p);
  fields.read("frequency_penalty", sampling.frequency_penalty);
  fields.read("presence_penalty", sampling.presence_penalty);
  fields.read("repetition_penalty", sampling.repetition_penalty);
  read_llama_cpp(fields, options, model_.context());
  if (fields.find("seed") != nullptr) {
    constexpr std::uint64_t for_zero = 0x9e3779b97f4a7c15;  // to us 0 is a new one each time
    std::int64_t seed = 0;
    fields.read("seed", seed);
    constexpr std::int64_t any = -1;  // to llama.cpp and vLLM
    sampling.seed = seed == any ? 0 : seed == 0 ? for_zero : static_cast<std::uint64_t>(seed);
  }
  read_bias(fields, sampling.bias, model_.tokenizer().size());
  read_stops(fields, options.stop);
  try {
    if (auto grammar = grammar_of(fields)) options.grammar = std::move(grammar);
  } catch (const FormatError& error) {
    throw BadRequest(error.what(), fields.find("grammar")       ? "grammar"
                                   : fields.find("json_schema") ? "json_schema"
                                                                : "response_format");
  }
  const char* const best = chat ? "top_logprobs" : "logprobs";
  if (!chat || fields.flag("logprobs")) {
    if (chat) options.best_log_probabilities = 0;
    fields.read(best, options.best_log_probabilities);
    constexpr std::int64_t most_best = 20;
    if (fields.find(best) != nullptr &&
        (options.best_log_probabilities < 0 || options.best_log_probabilities > most_best))
      refuse(best, fmt::format("0 to {}", most_best));
  }
  call.stream = fields.flag("stream");
  if (const Json* more = fields.find("stream_options"); more != nullptr && more->is_object())
    call.usage_in_stream = Fields(*more).flag("include_usage");
  call.echo = !chat && fields.flag("echo");
  options.score_prompt = call.echo && options.best_log_probabilities >= 0;
  if (call.stream && options.score_prompt) refuse("logprobs", "not with both echo and stream");
  if (chat) {
    const Json *choice = fields.find("tool_choice"), *tools = fields.find("tools");
    if (tools != nullptr && (choice == nullptr || *choice != "none")) call.tools = tool_names(*tools);
    if (const auto forced = forced_tools(fields, call.tools); !forced.empty()) {
      if (fields.find("grammar") != nullptr || fields.find("json_schema") != nullptr ||
          fields.find("response_format") != nullptr)
        refuse("tool_choice", "a call that must be made leaves nothing to response_format and grammar");
      try {
        options.grammar = Grammar::from_json_schema(forced_call_schema(*tools, forced).dump());
      } catch (const FormatError& error) {
        throw BadRequest(error.what(), "tools");
      }
    }
  }
  if (chat) {
    call.prompts.push_back(chat_prompt(body, !call.tools.empty()));
    call.format = format_;
    call.begins_with_thoughts = begins_with_thoughts(model_.tokenizer(), call.prompts.back(), format_);
    options.special_text = format_ == AnswerFormat::channels;
    options.grammar_after = AnswerReader(format_, call.begins_with_thoughts).end_of_thoughts();
  } else
    call.prompts = text_prompts(body, "prompt");
  check_lengths(call, model_.context() - 1, chat ? "messages" : "prompt");
  if (call.choices() > most_answers)
    refuse("prompt", fmt::format("{} answers are wanted, {} can be had", call.choices(), most_answers));
  call.id = random_name(chat ? "chatcmpl-" : "cmpl-");
  call.created = seconds_now();
  return call;
}

std::vector<TokenId> Interface::chat_prompt(const Json& body, bool with_tools) const {
  const Fields fields(body);
  if (!template_) refuse("messages", "this model has no chat template; /v1/completions goes on from a text");
  const Json* given = fields.find("messages");
  if (given == nullptr || !given->is_array() || given->empty()) refuse("messages", "a list is needed");
  check_messages(*given);
  Json messages = *given;
  join_parts(messages);
  read_arguments(messages);
  rename_developers(messages, template_->source());
  ChatOptions options;
  if (with_tools) options.tools = *fields.find("tools");
  if (const Json* variables = fields.find("chat_template_kwargs")) options.variables = *variables;
  const bool begun = fields.flag("continue_final_message");
  if (begun && (messages.back()["role"] != "assistant" || !Fields(messages.back()).find("content")))
    refuse("continue_final_message", "the last message is no text of the assistant");
  try {
    return chat_tokens(model_, *template_, std::move(messages), std::move(options), begun);
  } catch (const ValueError& error) {
    throw BadRequest(error.what(), "messages");
  }
}

std::vector<std::vector<TokenId>> Interface::text_prompts(const Json& body, const char* field) const {
  const Json* given = Fields(body).find(field);
  if (given == nullptr) refuse(field, "needed");
  if (!given->is_array() || given->empty() || given->front().is_number()) return {text_prompt(*given, field)};
  std::vector<std::vector<TokenId>> prompts;
  for (const Json& prompt : *given) prompts.push_back(text_prompt(prompt, field));
  return prompts;
}

std::vector<TokenId> Interface::text_prompt(const Json& given, const char* field) const {
  // A prompt is written for the model, in a template's marks, say; what is embedded is somebody's text.
  const bool marks = field == std::string_view("prompt");
  if (given.is_string())
    return model_.tokenizer().encode(given.get<std::string>(), {.add_special = true, .parse_special = marks});
  if (!given.is_array() || given.empty()) refuse(field, "neither a text nor a list of tokens");
  std::vector<TokenId> tokens;
  for (const Json& token : given) {
    if (!token.is_number_integer() || token < 0 || token >= model_.tokenizer().size())
      refuse(field, "a list has texts, or tokens of the vocabulary");
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

Interface::Json Interface::model_json() const {
  return {{"id", name_},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "hearth"},
          {"context_length", model_.context()}};
}
std::string Interface::models() const {
  return text_of({{"object", "list"}, {"data", Json::array({model_json()})}});
}
std::optional<std::string> Interface::model(std::string_view name) const {
  if (name != name_) return std::nullopt;
  return text_of(model_json());
}

Interface::Json Interface::head(const Call& call, std::string_view kind) const {
  return {{"id", call.id}, {"object", kind}, {"created", call.created}, {"model", name_}};
}

std::string Interface::embeddings(const Call& call, const std::vector<GenerateResult>& results) const {
  Json data = Json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<float>& numbers = results[i].embedding;
    data.push_back(
        {{"object", "embedding"},
         {"index", i},
         {"embedding", call.base64 ? Json(to_base64(std::as_bytes(std::span(numbers)))) : Json(numbers)}});
    tokens += results[i].prompt_tokens;
  }
  return text_of({{"object", "list"},
                  {"data", std::move(data)},
                  {"model", name_},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

std::string Interface::answer(const Call& call, const std::vector<GenerateResult>& results) const {
  if (call.embeds) return embeddings(call, results);
  Json json = head(call, call.chat ? "chat.completion" : "text_completion");
  json["choices"] = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) json["choices"].push_back(choice(call, i, results[i]));
  json["usage"] = usage_of(call, results);
  return text_of(json);
}

Interface::Json Interface::choice(const Call& call, std::size_t index, const GenerateResult& result) const {
  Json choice{{"index", index}};
  const char* reason = reason_name(result.reason);
  if (call.chat) {
    AnswerReader reader(call.format, call.begins_with_thoughts);
    AnswerParts parts = reader.add(result.text);
    append(parts, reader.finish());
    Json message{{"role", "assistant"}, {"content", parts.text}};
    if (!parts.thoughts.empty()) message["reasoning_content"] = parts.thoughts;
    const ToolAnswer taken = calls_of(parts, call.tools);
    if (!taken.calls.empty()) {
      const std::string_view text = trimmed(taken.text);
      message["content"] = text.empty() ? Json(nullptr) : Json(text);
      message["tool_calls"] = calls_json(taken.calls, false);
      reason = "tool_calls";
    }
    choice["message"] = std::move(message);
  } else {
    choice["text"] = (call.echo ? echoed_text(call, index) : "") + result.text;
  }
  choice["logprobs"] = call.options.score_prompt ? echoed_log_probabilities(call, index, result)
                                                 : log_probabilities(call, result.log_probabilities);
  choice["finish_reason"] = reason;
  return choice;
}

Interface::Json Interface::log_probabilities(const Call& call,
                                             std::span<const LogProbabilities> of_tokens) const {
  if (call.options.best_log_probabilities < 0) return nullptr;
  const Tokenizer& tokenizer = model_.tokenizer();
  const auto text = [&](TokenId token) { return std::string(tokenizer.bytes(token)); };
  if (!call.chat) {
    Json tokens = Json::array(), chosen = Json::array(), best = Json::array();
    for (const LogProbabilities& token : of_tokens) {
      tokens.push_back(text(token.chosen.token));
      chosen.push_back(token.chosen.log_probability);
      Json others = Json::object();
      for (const TokenLogProbability& other : token.best)  // of those with the same text the best
        others.emplace(text(other.token), other.log_probability);
      best.push_back(others);
    }
    return {{"tokens", tokens}, {"token_logprobs", chosen}, {"top_logprobs", best}};
  }
  const auto entry = [&](const TokenLogProbability& token) {
    Json bytes = Json::array();
    for (const char byte : tokenizer.bytes(token.token)) bytes.push_back(static_cast<unsigned char>(byte));
    return Json{{"token", text(token.token)}, {"logprob", token.log_probability}, {"bytes", bytes}};
  };
  Json content = Json::array();
  for (const LogProbabilities& token : of_tokens) {
    Json own = entry(token.chosen);
    own["top_logprobs"] = Json::array();
    for (const TokenLogProbability& other : token.best) own["top_logprobs"].push_back(entry(other));
    content.push_back(own);
  }
  return {{"content", content}};
}

std::string Interface::echoed_text(const Call& call, std::size_t choice) const {
  const Tokenizer& tokenizer = model_.tokenizer();
  std::span<const TokenId> prompt = call.prompt_of(choice);
  if (tokenizer.adds_bos() && prompt.front() == tokenizer.special().bos) prompt = prompt.subspan(1);
  if (tokenizer.adds_eos() && !prompt.empty() && prompt.back() == tokenizer.special().eos)
    prompt = prompt.first(prompt.size() - 1);
  return tokenizer.decode(prompt);
}

// The prompt's first token follows nothing: it has no probability.
Interface::Json Interface::echoed_log_probabilities(const Call& call, std::size_t choice,
                                                    const GenerateResult& result) const {
  std::vector<LogProbabilities> all = result.prompt_log_probabilities;
  all.insert(all.end(), result.log_probabilities.begin(), result.log_probabilities.end());
  Json json = log_probabilities(call, all);
  json["tokens"].insert(json["tokens"].begin(),
                        std::string(model_.tokenizer().bytes(call.prompt_of(choice).front())));
  for (const char* name : {"token_logprobs", "top_logprobs"}) json[name].insert(json[name].begin(), nullptr);
  return json;
}

std::string AnswerStream::event(Json delta, const char* reason) {
  Json json = interface_.head(call_, call_.chat ? "chat.completion.chunk" : "text_completion");
  Json choice{{"index", choice_}};
  choice[call_.chat ? "delta" : "text"] = std::move(delta);
  choice["logprobs"] = kept_.empty() ? Json(nullptr) : interface_.log_probabilities(call_, kept_);
  kept_.clear();
  choice["finish_reason"] = reason == nullptr ? Json(nullptr) : Json(reason);
  json["choices"] = Json::array({std::move(choice)});
  return text_of(json);
}

std::vector<std::string> AnswerStream::begin() {
  if (call_.chat) return {event({{"role", "assistant"}, {"content", ""}})};
  if (call_.echo) return {event(interface_.echoed_text(call_, choice_))};
  return {};
}

std::vector<std::string> AnswerStream::add(std::string_view text,
                                           std::optional<LogProbabilities> log_probabilities) {
  if (log_probabilities) kept_.push_back(std::move(*log_probabilities));
  if (text.empty()) return {};
  if (!call_.chat) return {event(text)};
  return events_of(reader_.add(text));
}

std::vector<std::string> AnswerStream::events_of(const AnswerParts& parts) {
  append(answer_, parts);
  std::vector<std::string> events;
  if (!parts.thoughts.empty()) events.push_back(event({{"reasoning_content", parts.thoughts}}));
  const std::string certain = call_.tools.empty() ? parts.text : filter_.add(parts.text);
  if (!certain.empty()) events.push_back(event({{"content", certain}}));
  return events;
}

std::vector<std::string> AnswerStream::end(const GenerateResult& result) {
  std::vector<std::string> events;
  const char* reason = reason_name(result.reason);
  if (call_.chat) events = events_of(reader_.finish());
  if (call_.chat && !call_.tools.empty()) {
    const ToolAnswer taken = calls_of(answer_, call_.tools);
    // What was shown is where the text begins in either case.
    std::string_view rest = taken.text;
    rest.remove_prefix(std::min(rest.size(), filter_.shown()));
    if (!(taken.calls.empty() ? rest : trimmed(rest)).empty()) events.push_back(event({{"content", rest}}));
    if (!taken.calls.empty()) {
      events.push_back(event({{"tool_calls", calls_json(taken.calls, true)}}));
      reason = "tool_calls";
    }
  }
  events.push_back(event(call_.chat ? Json::object() : Json(""), reason));
  return events;
}

std::vector<std::string> AnswerStream::usage(const Interface& interface, const Call& call,
                                             const std::vector<GenerateResult>& results) {
  if (!call.usage_in_stream) return {};
  Json json = interface.head(call, call.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["usage"] = usage_of(call, results);
  return {text_of(json)};
}

std::string error_body(std::string_view message, std::string_view type, std::string_view field,
                       std::string_view code) {
  Json error{{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!field.empty()) error["param"] = field;
  if (!code.empty()) error["code"] = code;
  return text_of({{"error", error}});
}

}  // namespace hearth::llm::openai
