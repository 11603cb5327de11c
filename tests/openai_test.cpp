// The JSON of OpenAI's interfaces: what is read from requests, what is refused, how answers look.
#include "llm/openai.h"

#include <gtest/gtest.h>

#include <cmath>

#include "padded_model.h"

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

std::string text_of(const Call& call) { return storyteller().tokenizer().decode(call.prompts.at(0)); }

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
  EXPECT_EQ(call.prompts.at(0), storyteller().tokenizer().encode("Once"));
}

TEST(OpenAi, IdsThatAreNoTokensAreRefused) {
  const auto path = std::filesystem::path(HEARTH_SHARED_DIR) / "models" / "tinystories-656K" / "f32";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Interface interface(test::padded_copy(path, {.device = Device{}}), "padded", {}, "");
  EXPECT_EQ(interface.completion(R"({"prompt": [2047]})").prompts.at(0), (std::vector<TokenId>{2047}));
  EXPECT_THROW(interface.completion(R"({"prompt": [2048]})"), BadRequest);
  EXPECT_THROW(interface.completion(R"({"prompt": "a", "logit_bias": {"2048": 1}})"), BadRequest);
}

TEST(OpenAi, PromptsMayBeTokensOrLists) {
  const Interface interface = interface_with("");
  EXPECT_EQ(interface.completion(R"({"prompt": [5, 6]})").prompts.at(0), (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(interface.completion(R"({"prompt": [[5, 6]]})").prompts.at(0), (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(interface.completion(R"({"prompt": ["Once"]})").prompts.at(0),
            storyteller().tokenizer().encode("Once"));
  const Call several = interface.completion(R"({"prompt": ["Once", [5, 6]], "n": 2, "seed": 7})");
  ASSERT_EQ(several.choices(), 4u);
  EXPECT_EQ(several.prompt_of(1), storyteller().tokenizer().encode("Once"));
  EXPECT_EQ(several.prompt_of(2), (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(several.options_of(0).sampling.seed, several.options_of(2).sampling.seed);
  EXPECT_NE(several.options_of(0).sampling.seed, several.options_of(1).sampling.seed);
  const Interface unseeded(storyteller(), "storyteller", {}, "");
  EXPECT_EQ(unseeded.completion(R"({"prompt": "a", "n": 2})").options_of(1).sampling.seed, 0u);
  const Call largest = interface.completion(R"({"prompt": "a", "n": 3, "seed": -2})");
  EXPECT_NE(largest.options_of(1).sampling.seed, 0u);  // which would be a new one each time
  EXPECT_NE(largest.options_of(1).sampling.seed, largest.options_of(2).sampling.seed);
}

// Clients write the marks of templates, and of code to fill in, themselves; what is embedded has none.
TEST(OpenAi, PromptsMayHaveSpecialTokens) {
  const Interface interface = interface_with("");
  const Tokenizer& tokenizer = storyteller().tokenizer();
  const TokenId bos = tokenizer.special().bos.value();
  const std::string mark(tokenizer.text(bos)), text = "Once" + mark + "upon";
  std::vector<TokenId> expected = tokenizer.encode("Once");
  expected.push_back(bos);
  for (const TokenId token : tokenizer.encode("upon", {.add_special = false})) expected.push_back(token);
  const Call call = interface.completion(json{{"prompt", text}, {"echo", true}}.dump());
  EXPECT_EQ(call.prompts.at(0), expected);
  GenerateResult result;
  result.text = "!";
  EXPECT_EQ(json::parse(interface.answer(call, {result}))["choices"][0]["text"], text + "!");
  const Call embedded = interface.embedding(json{{"input", text}}.dump());
  EXPECT_EQ(embedded.prompts.at(0), tokenizer.encode(text));
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
          {R"({"prompt": ["a", 3]})", "prompt"},
          {R"({"prompt": [3, "a"]})", "prompt"},
          {R"({"prompt": ["a", []]})", "prompt"},
          {R"({"prompt": ["a", "b"], "n": 65})", "prompt"},
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
          {R"({"prompt": "a", "n": 0})", "n"},
          {R"({"prompt": "a", "n": 129})", "n"},
          {R"({"prompt": "a", "suffix": "b"})", "suffix"},
          {R"({"prompt": "a", "echo": 1})", "echo"},
          {R"({"prompt": "a", "echo": true, "logprobs": 1, "stream": true})", "logprobs"},
          {R"({"prompt": "a", "logprobs": 21})", "logprobs"},
          {R"({"prompt": "a", "max_tokens": -2})", "max_tokens"},
          {R"({"prompt": "a", "mirostat": 3})", "mirostat"},
          {R"({"prompt": "a", "json_schema": {"type": 3}})", "json_schema"},
          {R"({"prompt": "a", "response_format": {"type": "json_object", "schema": {"type": 3}}})",
           "response_format"},
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
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": 1})", "tools"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {}}]})", "tools"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"})", "tool_choice"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": {"type": "function"}})",
            "tool_choice"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}],
                "tool_choice": {"type": "function", "function": {"name": "g"}}})",
            "tool_choice"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}],
                "tool_choice": "always"})",
            "tool_choice"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}],
                "tool_choice": "required", "response_format": {"type": "json_object"}})",
            "tool_choice"},
           {R"({"messages": [{"role": "user", "content": "a"}],
                "tools": [{"function": {"name": "f", "parameters": {"type": "nothing"}}}],
                "tool_choice": "required"})",
            "tools"},
           {R"({"messages": []})", "messages"},
           {R"({"messages": "hi"})", "messages"},
           {R"({"messages": ["hi"]})", "messages"},
           {R"({"messages": [{"content": "hi"}]})", "messages"},
           {R"({"messages": [{"role": 3, "content": "hi"}]})", "messages"},
           {R"({"messages": [{"role": "user"}]})", "messages"},
           {R"({"messages": [{"role": "user", "content": null}]})", "messages"},
           {R"({"messages": [{"role": "system", "content": 5}]})", "messages"},
           {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages"}})
    refuses([&](const char* body) { return interface.chat(body); }, wrong);
  refuses([&](const char* body) { return without.chat(body); },
          {R"({"messages": [{"role": "user", "content": "hi"}]})", "messages"});
}

// Names and values that llama.cpp's server knows.
TEST(OpenAi, TakesWhatLlamaCppTakes) {
  const Interface interface = interface_with("");
  const Call call = interface.completion(
      R"({"prompt": "a", "n_predict": 7, "repeat_penalty": 1.5, "repeat_last_n": 9, "ignore_eos": true,
          "mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.25})");
  EXPECT_EQ(call.options.most_tokens, 7);
  EXPECT_TRUE(call.options.ignore_end);
  const SamplingOptions& sampling = call.options.sampling;
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.penalty_window, 9);
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_EQ(sampling.mirostat_target, 3);
  EXPECT_EQ(sampling.mirostat_rate, 0.25);
  const Call all =
      interface.completion(R"({"prompt": "a", "max_tokens": -1, "top_k": -1, "repeat_last_n": -1})");
  EXPECT_EQ(all.options.most_tokens, -1);
  EXPECT_EQ(all.options.sampling.top_k, 0);
  EXPECT_EQ(all.options.sampling.penalty_window, storyteller().context());
  EXPECT_EQ(interface.completion(R"({"prompt": "a", "seed": -1})").options.sampling.seed, 0u);  // any
  for (const char* schema :
       {R"("json_schema": {"type": "integer"})",
        R"("response_format": {"type": "json_object", "schema": {"type": "integer"}})"}) {
    const Call held = interface.completion(std::string(R"({"prompt": "a", )") + schema + "}");
    ASSERT_TRUE(held.options.grammar) << schema;
    EXPECT_TRUE(held.options.grammar->matches("12")) << schema;
    EXPECT_FALSE(held.options.grammar->matches("{}")) << schema;
  }
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
  const json answer = json::parse(interface.answer(call, {result}));
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

  AnswerStream stream(interface, call);
  ASSERT_EQ(stream.begin().size(), 1u);
  EXPECT_EQ(json::parse(stream.begin()[0])["choices"][0]["delta"]["role"], "assistant");
  const auto pieces = stream.add("text");
  ASSERT_EQ(pieces.size(), 1u);
  const json piece = json::parse(pieces[0]);
  EXPECT_EQ(piece["object"], "chat.completion.chunk");
  EXPECT_EQ(piece["id"], answer["id"]);
  EXPECT_EQ(piece["choices"][0]["delta"]["content"], "text");
  EXPECT_TRUE(piece["choices"][0]["finish_reason"].is_null());
  const auto end = stream.end(result);
  ASSERT_EQ(end.size(), 1u);  // nobody asked for the usage
  EXPECT_EQ(json::parse(end[0])["choices"][0]["finish_reason"], "length");
  const json list = json::parse(interface.models());
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "storyteller");
  EXPECT_EQ(json::parse(error_body("m", "t", "f"))["error"]["param"], "f");
}

// Log-probabilities come once each, with the next text or the end.
TEST(OpenAi, StreamsLogProbabilities) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.completion(R"({"prompt": "a", "logprobs": 1, "stream": true})");
  const LogProbabilities tokens[] = {{{5, -0.5}, {{5, -0.5}}}, {{6, -1}, {{7, -0.25}}}, {{8, -2}, {}}};
  GenerateResult result;
  result.log_probabilities.assign(std::begin(tokens), std::end(tokens));
  const auto sent = [](const std::vector<std::string>& events) {
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? json() : json::parse(events[0])["choices"][0]["logprobs"];
  };
  AnswerStream stream(interface, call);
  EXPECT_TRUE(stream.add("", tokens[0]).empty());
  EXPECT_EQ(sent(stream.add("text", tokens[1]))["token_logprobs"], (std::vector{-0.5, -1.0}));
  EXPECT_TRUE(sent(stream.add("more")).is_null());
  EXPECT_TRUE(stream.add("", tokens[2]).empty());
  EXPECT_EQ(sent(stream.end(result))["token_logprobs"], std::vector{-2.0});
}

TEST(OpenAi, EchoesPrompts) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.completion(R"({"prompt": "Once upon", "echo": true, "logprobs": 1})");
  const std::size_t count = call.prompts[0].size();
  GenerateResult result;
  result.text = " a";
  result.log_probabilities = {{{5, -0.5}, {{5, -0.5}}}};
  for (std::size_t i = 1; i < count; ++i)
    result.prompt_log_probabilities.push_back({{call.prompts[0][i], -3}, {{7, -1}}});
  const json choice = json::parse(interface.answer(call, {result}))["choices"][0];
  EXPECT_EQ(choice["text"], "Once upon a");
  const json& scored = choice["logprobs"];
  ASSERT_EQ(scored["tokens"].size(), count + 1);
  ASSERT_EQ(scored["token_logprobs"].size(), count + 1);
  ASSERT_EQ(scored["top_logprobs"].size(), count + 1);
  EXPECT_TRUE(scored["token_logprobs"][0].is_null() && scored["top_logprobs"][0].is_null());
  EXPECT_EQ(scored["token_logprobs"][1], count > 1 ? -3 : -0.5);
  EXPECT_EQ(scored["token_logprobs"].back(), -0.5);

  const Call streamed = interface.completion(R"({"prompt": "Once upon", "echo": true, "stream": true})");
  EXPECT_FALSE(streamed.options.score_prompt);
  AnswerStream stream(interface, streamed);
  const auto begin = stream.begin();
  ASSERT_EQ(begin.size(), 1u);
  EXPECT_EQ(json::parse(begin[0])["choices"][0]["text"], "Once upon");
}

constexpr const char* with_tools = R"({"messages": [{"role": "user", "content": "hi"}],
  "tools": [{"type": "function", "function": {"name": "weather"}},
            {"type": "function", "function": {"name": "clock"}}]})";

GenerateResult written(std::string text) {
  GenerateResult result;
  result.text = std::move(text);
  result.reason = FinishReason::end;
  return result;
}

// As Qwen and Hermes, Llama 3 and Mistral write them.
TEST(OpenAi, CallsOfToolsAreTakenOutOfTheText) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.chat(with_tools);
  const std::string one = R"({"name": "weather", "arguments": {"place": "Oslo"}})",
                    two = R"({"name": "clock"})";
  const auto message_of = [&](const std::string& text) {
    const json choice = json::parse(interface.answer(call, {written(text)}))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], choice["message"].contains("tool_calls") ? "tool_calls" : "stop")
        << text;
    return choice["message"];
  };
  for (const std::string& text :
       {"<tool_call>\n" + one + "\n</tool_call>\n<tool_call>" + two + "</tool_call>",
        "<tool_call>" + one + "</tool_call><tool_call>" + two,  // stopped at the last mark
        "[" + one + ", " + two + "]", "[TOOL_CALLS] [" + one + ", " + two + "]"}) {
    const json message = message_of(text);
    EXPECT_TRUE(message["content"].is_null()) << text;
    ASSERT_EQ(message["tool_calls"].size(), 2u) << text;
    const json& first = message["tool_calls"][0];
    EXPECT_EQ(first["type"], "function");
    EXPECT_NE(first["id"], message["tool_calls"][1]["id"]);
    EXPECT_EQ(first["function"]["name"], "weather");
    EXPECT_EQ(json::parse(first["function"]["arguments"].get<std::string>()), json({{"place", "Oslo"}}));
    EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
  }
  for (const char* text : {R"({"name": "weather", "parameters": {"place": "Oslo"}})",
                           R"({"name": "weather", "arguments": "{\"place\": \"Oslo\"}"})",
                           R"(<|python_tag|>{"name": "weather", "parameters": {"place": "Oslo"}})"})
    EXPECT_EQ(message_of(text)["tool_calls"].size(), 1u) << text;
  const json around = message_of("Let me look. <tool_call>" + one + "</tool_call>");
  EXPECT_EQ(around["content"], "Let me look.");
  EXPECT_EQ(around["tool_calls"].size(), 1u);
  // No calls: other names, other JSON, broken JSON, plain text, an answer to a request without tools.
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  for (const std::string& text :
       {std::string(R"({"name": "Bob", "arguments": {}})"), std::string(R"([1, 2])"), std::string("[]"),
        std::string("<tool_call>{\"name\": </tool_call> so"),
        std::string(R"(<tool_call>{"name": "Bob", "arguments": {}}</tool_call>)"),
        std::string(R"({"name": "weather", "arguments": "Oslo"})"), std::string("It is { nice }."), deep,
        "<tool_call>" + deep + "</tool_call>"}) {
    EXPECT_EQ(message_of(text)["content"], text);
    EXPECT_FALSE(message_of(text).contains("tool_calls")) << text;
  }
  const Call plain = interface.chat(R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(json::parse(interface.answer(plain, {written(one)}))["choices"][0]["message"]["content"], one);
}

// Whatever the pieces: the text that is shown and the calls are those of the whole answer.
TEST(OpenAi, CallsOfToolsAreHeldBackFromAStream) {
  const Interface interface = interface_with(plain_template);
  const Call call = interface.chat(with_tools);
  const std::string one = R"({"name": "weather", "arguments": {"place": "Oslo"}})";
  struct Case {
    std::string text, shown;
    std::size_t calls;
  };
  for (const Case& c : {Case{"<tool_call>" + one + "</tool_call>", "", 1}, Case{one, "", 1},
                        Case{"Look: <tool_call>" + one + "</tool_call>\n", "Look: ", 1},
                        Case{"a < b, <tool> and <tool_call", "a < b, <tool> and <tool_call", 0},
                        Case{" <tool_call>no</tool_call> x", " <tool_call>no</tool_call> x", 0},
                        Case{"{\"a\": 1}", "{\"a\": 1}", 0}, Case{"[TO be]", "[TO be]", 0}, Case{"", "", 0}})
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
      AnswerStream stream(interface, call);
      std::string shown, reason;
      std::size_t calls = 0;
      const auto take = [&](const std::vector<std::string>& events) {
        for (const std::string& event : events) {
          const json choice = json::parse(event)["choices"][0];
          if (choice["delta"].contains("content")) shown += choice["delta"]["content"].get<std::string>();
          if (choice["delta"].contains("tool_calls")) {
            calls += choice["delta"]["tool_calls"].size();
            EXPECT_EQ(choice["delta"]["tool_calls"][0]["index"], 0);
          }
          if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
        }
      };
      for (std::size_t at = 0; at < c.text.size(); at += size) take(stream.add(c.text.substr(at, size)));
      take(stream.end(written(c.text)));
      EXPECT_EQ(shown, c.shown);
      EXPECT_EQ(calls, c.calls) << c.text;
      EXPECT_EQ(reason, c.calls > 0 ? "tool_calls" : "stop") << c.text;
    }
  // Text that cannot be a call is not held back.
  AnswerStream stream(interface, call);
  EXPECT_EQ(stream.add("Hello").size(), 1u);
}

// Thoughts come apart from the answer, whole and streamed, whatever marks them.
TEST(OpenAi, TellsThoughtsApart) {
  const Interface interface =
      interface_with("{% for m in messages %}{{ m['content'] }}{% endfor %}{# </think> #}");
  const auto check = [&](const Call& call, const std::string& text, const std::string& thoughts,
                         const std::string& said, const std::string& called = "") {
    const json message = json::parse(interface.answer(call, {written(text)}))["choices"][0]["message"];
    EXPECT_EQ(message.value("reasoning_content", ""), thoughts);
    EXPECT_EQ(message["content"].is_null() ? "" : message["content"], said);
    AnswerStream stream(interface, call);
    std::string streamed_thoughts, streamed, name;
    const auto take = [&](const std::vector<std::string>& events) {
      for (const std::string& event : events) {
        const json delta = json::parse(event)["choices"][0]["delta"];
        streamed_thoughts += delta.value("reasoning_content", "");
        streamed += delta.value("content", "");
        if (delta.contains("tool_calls")) name = delta["tool_calls"][0]["function"]["name"];
      }
    };
    for (const char c : text) take(stream.add({&c, 1}));
    take(stream.end(written(text)));
    EXPECT_EQ(streamed_thoughts, thoughts);
    EXPECT_EQ(streamed, said);
    EXPECT_EQ(name, called);
    if (!called.empty()) {
      EXPECT_EQ(message["tool_calls"][0]["function"]["name"], called);
    }
  };
  Call call = interface.chat(R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_FALSE(call.begins_with_thoughts);
  check(call, "<think>Well.</think>\n\nHello", "Well.", "Hello");
  check(call, "Hello", "", "Hello");
  const Call begun = interface.chat(R"({"messages": [{"role": "user", "content": "hi <think>"}]})");
  EXPECT_TRUE(begun.begins_with_thoughts);
  // What must look like something is what is said, not what is thought.
  EXPECT_EQ(begun.options.grammar_after, "</think>");
  EXPECT_EQ(call.options.grammar_after, "");
  check(begun, "Well.</think>Hello", "Well.", "Hello");
  call = interface.chat(with_tools);
  call.format = AnswerFormat::channels;
  check(
      call,
      "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.clock "
      "<|constrain|>json<|message|>{}",
      "Look.", "", "clock");
}

// Whatever the model: here one that knows nothing but stories.
TEST(OpenAi, CallsOfToolsCanBeForced) {
  const Interface interface = interface_with(plain_template);
  const auto body = [](const json& choice) {
    // In this order arguments have to come.
    auto request = nlohmann::ordered_json::parse(R"({
      "messages": [{"role": "user", "content": "hi"}], "max_tokens": 200,
      "tools": [
        {"type": "function", "function": {"name": "weather", "parameters": {
          "type": "object", "$defs": {"Place": {"enum": ["Oslo", "Rome"]}},
          "properties": {"place": {"$ref": "#/$defs/Place"},
                         "days": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["place", "days"]}}},
        {"type": "function", "function": {"name": "clock"}}]})");
    request["tool_choice"] = choice;
    return request.dump();
  };
  const Call any = interface.chat(body("required")),
             one = interface.chat(body({{"type", "function"}, {"function", {{"name", "weather"}}}}));
  EXPECT_FALSE(interface.chat(body("auto")).options.grammar);
  ASSERT_TRUE(any.options.grammar && one.options.grammar);
  const char* const weather = R"({"name": "weather", "arguments": {"place": "Rome", "days": 2}})";
  const char* const clock = R"({"name": "clock", "arguments": {}})";
  EXPECT_TRUE(any.options.grammar->matches(weather) && one.options.grammar->matches(weather));
  EXPECT_TRUE(any.options.grammar->matches(clock));
  for (const char* text :
       {clock, "Hello", R"({"name": "weather", "arguments": {"place": "Bonn", "days": 2}})",
        R"({"name": "weather", "arguments": {}})", R"({"name": "weather"})"})
    EXPECT_FALSE(one.options.grammar->matches(text)) << text;
  Session session(storyteller());
  const json choice =
      json::parse(interface.answer(one, {session.generate(one.prompts.at(0), one.options)}))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const json& function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "weather");
  const json arguments = json::parse(function["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["place"] == "Oslo" || arguments["place"] == "Rome") << arguments;
  EXPECT_TRUE(arguments["days"].is_number_integer()) << arguments;
}

// The assistant's last message as the beginning of the answer.
TEST(OpenAi, AnswersMayBeBegun) {
  const Interface interface = interface_with(plain_template);
  const auto prompt = [&](const std::string& last) {
    return text_of(interface.chat(R"({"continue_final_message": true, "add_generation_prompt": false,
      "messages": [{"role": "user", "content": "Is it?"}, )" +
                                  last + "]}"));
  };
  EXPECT_EQ(prompt(R"({"role": "assistant", "content": "It is "})"), "user: Is it?\nassistant: It is ");
  EXPECT_EQ(prompt(R"({"role": "assistant", "content": "Is"})"), "user: Is it?\nassistant: Is");
  EXPECT_THROW(prompt(R"({"role": "user", "content": "It is"})"), BadRequest);
  EXPECT_THROW(prompt(R"({"role": "assistant", "content": null})"), BadRequest);
  const Interface trims = interface_with("{% for m in messages %}{{ m['content'] | trim }}<end>{% endfor %}");
  EXPECT_EQ(text_of(trims.chat(R"({"continue_final_message": true, "messages": [
              {"role": "user", "content": "Is it?"}, {"role": "assistant", "content": " It is "}]})")),
            "Is it?<end>It is ");
  const Interface drops = interface_with("{{ messages[0].content }}");
  EXPECT_THROW(drops.chat(R"({"continue_final_message": true, "messages": [
                 {"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "It"}]})"),
               BadRequest);
}

TEST(OpenAi, DevelopersAreTheSystemWhereTheTemplateDoesNotKnowThem) {
  const char* body = R"({"messages": [{"role": "developer", "content": "Be kind."},
    {"role": "user", "content": "Hello"}]})";
  EXPECT_EQ(text_of(interface_with(plain_template).chat(body)), "system: Be kind.\nuser: Hello\nassistant:");
  const std::string knows = "{% if messages[0].role == 'developer' %}It is {% endif %}";
  EXPECT_EQ(text_of(interface_with(knows + plain_template).chat(body)),
            "It is developer: Be kind.\nuser: Hello\nassistant:");
}

TEST(OpenAi, ArgumentsOfFormerCallsAreObjectsToTheTemplate) {
  const Interface interface = interface_with(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments.place }}{% endfor %}"
      "{{ m.content or '' }};{% endfor %}");
  const auto body = [](const std::string& arguments) {
    return json{
        {"messages",
         {{{"role", "assistant"},
           {"content", nullptr},
           {"tool_calls", {{{"id", "1"}, {"function", {{"name", "weather"}, {"arguments", arguments}}}}}}},
          {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "rain"}}}}}
        .dump();
  };
  EXPECT_EQ(text_of(interface.chat(body(R"({"place": "Oslo"})"))), "Oslo;rain;");
  EXPECT_EQ(text_of(interface.chat(body(""))), ";rain;");
  EXPECT_THROW(interface.chat(body("{")), BadRequest);
  EXPECT_THROW(interface.chat(body("[1]")), BadRequest);
}

}  // namespace
}  // namespace hearth::llm::openai
