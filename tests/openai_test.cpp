// The JSON of OpenAI's interfaces: what is read from requests, what is refused, how answers look.
#include "llm/openai.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth::llm::openai {
namespace {

using nlohmann::json;

constexpr const char* plain_template =
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if tools %}tools: {{ tools | length }}\n{% endif %}assistant:";

const Model& storyteller() {
  static const Model model =
      Model::load(std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf", {.device = Device{}});
  return model;
}

Interface interface_with(const std::string& chat_template) {
  GenerateOptions defaults{.most_tokens = 50};
  defaults.sampling.seed = 3;
  return Interface(storyteller(), "storyteller", defaults, chat_template);
}

std::string text_of(const Call& call) { return storyteller().tokenizer().decode(call.prompt); }

TEST(OpenAi, ReadsWhatARequestSays) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.chat(R"({
    "model": "any", "messages": [{"role": "system", "content": "Be kind."},
      {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": " you"}]}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125, "seed": 11,
    "frequency_penalty": 1, "presence_penalty": -1, "repetition_penalty": 1.5, "stop": ["a", "b"],
    "logit_bias": {"7": 2.5, "8": -100}, "stream": true, "stream_options": {"include_usage": true},
    "user": "somebody", "response_format": {"type": "json_object"}})");
  EXPECT_TRUE(call.chat && call.stream && call.usage_in_stream);
  EXPECT_EQ(text_of(call), "system: Be kind.\nuser: Hello you\ntools: 1\nassistant:");
  EXPECT_EQ(call.options.most_tokens, 9);
  const SamplingOptions& sampling = call.options.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.min_p, 0.125);
  EXPECT_EQ(sampling.seed, 11u);
  EXPECT_EQ(sampling.frequency_penalty, 1);
  EXPECT_EQ(sampling.presence_penalty, -1);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.bias.at(7), 2.5);
  EXPECT_TRUE(std::isinf(sampling.bias.at(8)));
  EXPECT_EQ(call.options.stop, (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(call.options.grammar);
  EXPECT_TRUE(call.options.grammar->matches(R"({"a": 1})"));
  EXPECT_FALSE(call.options.grammar->matches("[1]"));
}

TEST(OpenAi, WhatIsNotSaidIsAsTheServerWasTold) {
  const Call call = interface_with("").completion(R"({"prompt": "Once", "max_tokens": null})");
  EXPECT_EQ(call.options.most_tokens, 50);
  EXPECT_EQ(call.options.sampling.seed, 3u);
  EXPECT_EQ(call.options.best_log_probabilities, -1);
  EXPECT_FALSE(call.chat || call.stream);
  EXPECT_EQ(call.prompt, storyteller().tokenizer().encode("Once"));
}

TEST(OpenAi, PromptsMayBeTokensOrAListOfOne) {
  const Interface interface = interface_with("");
  EXPECT_EQ(interface.completion(R"({"prompt": [5, 6]})").prompt, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(interface.completion(R"({"prompt": [[5, 6]]})").prompt, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(interface.completion(R"({"prompt": ["Once"]})").prompt, storyteller().tokenizer().encode("Once"));
}

TEST(OpenAi, SaysWhatIsWrong) {
  const Interface interface = interface_with(plain_template), without = interface_with("");
  struct Wrong {
    const char *body, *field;
  };
  const auto refuses = [](const auto& parse, const Wrong& wrong) {
    try {
      parse(wrong.body);
      ADD_FAILURE() << wrong.body << " was taken";
    } catch (const BadRequest& error) {
      EXPECT_EQ(error.field(), wrong.field) << wrong.body << ": " << error.what();
    }
  };
  for (
      const Wrong& wrong : std::vector<Wrong>{
          {"", ""},
          {"[1]", ""},
          {"{", ""},
          {"{}", "prompt"},
          {R"({"prompt": 3})", "prompt"},
          {R"({"prompt": []})", "prompt"},
          {R"({"prompt": ["a", "b"]})", "prompt"},
          {R"({"prompt": [-1]})", "prompt"},
          {R"({"prompt": [8192]})", "prompt"},
          {R"({"prompt": [1e30]})", "prompt"},
          {R"({"prompt": "a", "max_tokens": "many"})", "max_tokens"},
          {R"({"prompt": "a", "max_tokens": 1.5})", "max_tokens"},
          {R"({"prompt": "a", "max_tokens": 18446744073709551615})", "max_tokens"},
          {R"({"prompt": "a", "temperature": "hot"})", "temperature"},
          {R"({"prompt": "a", "stream": 1})", "stream"},
          {R"({"prompt": "a", "stop": 1})", "stop"},
          {R"({"prompt": "a", "stop": ["a", 1]})", "stop"},
          {R"({"prompt": "a", "n": 2})", "n"},
          {R"({"prompt": "a", "suffix": "b"})", "suffix"},
          {R"({"prompt": "a", "echo": true})", "echo"},
          {R"({"prompt": "a", "logprobs": 21})", "logprobs"},
          {R"({"prompt": "a", "max_tokens": -1})", "max_tokens"},
          {R"({"prompt": "a", "logprobs": 1, "stream": true})", "logprobs"},
          {R"({"prompt": "a", "logit_bias": {"x": 1}})", "logit_bias"},
          {R"({"prompt": "a", "logit_bias": {"8192": 1}})", "logit_bias"},
          {R"({"prompt": "a", "logit_bias": [1]})", "logit_bias"},
          {R"({"prompt": "a", "grammar": "root ::= ("})", "grammar"},
          {R"({"prompt": "a", "response_format": "json"})", "response_format"},
          {R"({"prompt": "a", "response_format": {"type": "xml"}})", "response_format"},
          {R"({"prompt": "a", "response_format": {"type": "json_schema"}})", "response_format"},
          {R"({"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}})",
           "response_format"}})
    refuses([&](const char* body) { return interface.completion(body); }, wrong);
  for (const Wrong& wrong : std::vector<Wrong>{
           {"{}", "messages"},
           {R"({"messages": []})", "messages"},
           {R"({"messages": "hi"})", "messages"},
           {R"({"messages": ["hi"]})", "messages"},
           {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages"}})
    refuses([&](const char* body) { return interface.chat(body); }, wrong);
  refuses([&](const char* body) { return without.chat(body); },
          {R"({"messages": [{"role": "user", "content": "hi"}]})", "messages"});
}

// A body may be small and yet cost much: by recursion, by comparing keys, by texts to look for.
TEST(OpenAi, RefusesWhatIsMadeToExhaust) {
  const Interface interface = interface_with(plain_template);
  const auto deep = [](int levels) {
    return R"({"messages": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_THROW(interface.chat(deep(1000000)), BadRequest);
  EXPECT_THROW(interface.chat(deep(200)), BadRequest);
  std::string wide = R"({"prompt": "a")", stops = R"({"prompt": "a", "stop": ["x")";
  for (int i = 0; i < 100000; ++i) wide += ",\"" + std::to_string(i) + "\": 1";
  EXPECT_THROW(interface.completion(wide + "}"), BadRequest);
  for (int i = 0; i < 16; ++i) stops += R"(, "y")";
  EXPECT_THROW(interface.completion(stops + "]}"), BadRequest);
  EXPECT_THROW(interface.completion(R"({"prompt": "a", "stop": ")" + std::string(2000, 's') + "\"}"),
               BadRequest);
}

TEST(OpenAi, ZeroMeansWhatItMeansToClients) {
  const Interface interface = interface_with("");
  const auto seed = [&] {
    return interface.completion(R"({"prompt": "a", "seed": 0})").options.sampling.seed;
  };
  EXPECT_NE(seed(), 0u);  // to us that is another one each time
  EXPECT_EQ(seed(), seed());
  EXPECT_NO_THROW(Sampler(interface.completion(R"({"prompt": "a", "top_p": 0})").options.sampling));
  // How many of the best, but nobody wants any.
  const Interface chat = interface_with(plain_template);
  EXPECT_EQ(chat.chat(R"({"messages": [{"role": "user", "content": "hi"}], "top_logprobs": 2})")
                .options.best_log_probabilities,
            -1);
}

TEST(OpenAi, AnswersAsClientsExpect) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.chat(
      R"({"messages": [{"role": "user", "content": "hi"}], "logprobs": true, "top_logprobs": 1})");
  GenerateResult result;
  result.text = "A \"day\"\n\xff";  // not UTF-8
  result.tokens = {5, 6};
  result.log_probabilities = {{{5, -0.5}, {{7, -0.25}}}, {{6, -1}, {}}};
  result.prompt_tokens = 4;
  result.reused_tokens = 3;
  result.reason = FinishReason::context;
  const json answer = json::parse(interface.answer(call, result));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "storyteller");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 9), "chatcmpl-");
  ASSERT_EQ(answer["choices"].size(), 1u);
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "A \"day\"\n\xEF\xBF\xBD");
  EXPECT_EQ(choice["finish_reason"], "length");
  ASSERT_EQ(choice["logprobs"]["content"].size(), 2u);
  EXPECT_EQ(choice["logprobs"]["content"][0]["logprob"], -0.5);
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"][0]["logprob"], -0.25);
  EXPECT_EQ(answer["usage"]["total_tokens"], 6);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3);

  EXPECT_EQ(json::parse(interface.first_event(call))["choices"][0]["delta"]["role"], "assistant");
  const json piece = json::parse(interface.event(call, "text"));
  EXPECT_EQ(piece["object"], "chat.completion.chunk");
  EXPECT_EQ(piece["id"], answer["id"]);
  EXPECT_EQ(piece["choices"][0]["delta"]["content"], "text");
  EXPECT_TRUE(piece["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(json::parse(interface.last_event(call, result))["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(interface.usage_event(call, result).empty());
  const json list = json::parse(interface.models());
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "storyteller");
  EXPECT_EQ(json::parse(error_body("m", "t", "f"))["error"]["param"], "f");
}

}  // namespace
}  // namespace hearth::llm::openai
