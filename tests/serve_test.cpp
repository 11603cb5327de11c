// `hearth serve` as its clients meet it.
#include <gtest/gtest.h>
#ifdef HEARTH_HAVE_HTTPLIB
#include <httplib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "temporary_folder.h"

namespace hearth {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// A server of its own, on a port that was free.
class Serving {
 public:
  explicit Serving(std::vector<std::string> more = {}) {
    std::ofstream(folder_ / "template") << "{% for m in messages %}{{ m['content'] }} {% endfor %}";
    const std::string errors = (folder_ / "errors").string();
    std::vector<std::string> arguments{HEARTH_COMMAND,
                                       "serve",
                                       HEARTH_MODELS_DIR "/storyteller.gguf",
                                       "--device",
                                       "cpu",
                                       "--port",
                                       "0",
                                       "--sequences",
                                       "2",
                                       "--template",
                                       (folder_ / "template").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      if (freopen(errors.c_str(), "w", stderr) != nullptr) execv(HEARTH_COMMAND, pointers.data());
      _exit(127);
    }
    constexpr std::string_view place = "http://127.0.0.1:";
    for (int i = 0; i < 600 && port_ == 0; ++i) {
      std::this_thread::sleep_for(50ms);
      const std::string text = log();
      const auto at = text.find(place);
      if (at != std::string::npos && text.find('/', at + place.size()) != std::string::npos)
        port_ = std::stoi(text.substr(at + place.size()));
      else if (waitpid(process_, nullptr, WNOHANG) != 0) {
        process_ = 0;
        break;
      }
    }
    EXPECT_NE(port_, 0) << log();
  }
  ~Serving() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(60s);
    return client;
  }
  json post(const std::string& path, const json& body, int status = 200) const {
    const auto response = client().Post(path, body.dump(), "application/json");
    if (!response) {
      ADD_FAILURE() << path << " was not answered\n" << log();
      return {};
    }
    EXPECT_EQ(response->status, status) << response->body;
    return json::parse(response->body, nullptr, false);
  }
  int running() const {
    const auto health = client().Get("/health");
    return health ? json::parse(health->body)["running"].get<int>() : -1;
  }
  // Its exit status after the signal.
  int stop(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string log() const {
    std::ifstream file(folder_ / "errors");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  test::TemporaryFolder folder_;
  pid_t process_ = 0;
  int port_ = 0;
};

const json once{{"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 0}};

// Token 0 ends a text; with --keep the context does not, either.
const json endless{{"prompt", "The"}, {"logit_bias", {{"0", -100}}}, {"max_tokens", 1000000000}};

// The pieces of a stream, and whether it came to its end.
struct Streamed {
  std::string text;
  json last;
  std::vector<double> log_probabilities;
  bool done = false;
};
Streamed read_stream(const Serving& serving, const std::string& path, json body) {
  body["stream"] = true;
  Streamed streamed;
  const auto response = serving.client().Post(path, body.dump(), "application/json");
  EXPECT_TRUE(response);
  if (!response) return streamed;
  EXPECT_EQ(response->get_header_value("Content-Type"), "text/event-stream");
  std::istringstream lines(response->body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    streamed.done = line == "data: [DONE]";
    if (streamed.done) continue;
    const json event = json::parse(line.substr(6));
    if (event.contains("error")) {
      streamed.last["error"] = event["error"]["message"];
      continue;
    }
    if (event["choices"].empty()) {
      streamed.last["usage"] = event["usage"];
      continue;
    }
    const json& choice = event["choices"][0];
    if (choice.contains("text")) streamed.text += choice["text"];
    if (choice.contains("delta") && choice["delta"].contains("content"))
      streamed.text += choice["delta"]["content"];
    if (const json& tokens = choice["logprobs"]; tokens.contains("token_logprobs"))
      for (const json& token : tokens["token_logprobs"]) streamed.log_probabilities.push_back(token);
    else if (tokens.contains("content"))
      for (const json& token : tokens["content"]) streamed.log_probabilities.push_back(token["logprob"]);
    if (!choice["finish_reason"].is_null()) streamed.last["reason"] = choice["finish_reason"];
  }
  return streamed;
}

TEST(Serve, AnswersWholeAndStreamed) {
  Serving serving;
  const json whole = serving.post("/v1/completions", once);
  const std::string text = whole["choices"][0]["text"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(whole["usage"]["completion_tokens"], 12);
  json with_usage = once;
  with_usage["stream_options"] = {{"include_usage", true}};
  const Streamed streamed = read_stream(serving, "/v1/completions", with_usage);
  EXPECT_EQ(streamed.text, text);
  EXPECT_TRUE(streamed.done);
  EXPECT_EQ(streamed.last["reason"], "length");
  EXPECT_EQ(streamed.last["usage"]["completion_tokens"], 12);

  const json chat{{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                  {"max_tokens", 6},
                  {"temperature", 0}};
  const json answer = serving.post("/v1/chat/completions", chat);
  EXPECT_EQ(answer["choices"][0]["message"]["content"],
            read_stream(serving, "/v1/chat/completions", chat).text);

  const auto models = serving.client().Get("/v1/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(json::parse(models->body)["data"][0]["id"], "storyteller");
  EXPECT_EQ(serving.stop(SIGINT), 0) << serving.log();
}

TEST(Serve, TellsLogProbabilitiesWholeAndStreamed) {
  const Serving serving;
  json completion = once;
  completion["logprobs"] = 2;
  completion["stop"] = ", there";  // its tokens are held back
  const json whole = serving.post("/v1/completions", completion)["choices"][0];
  const std::vector<double> tokens = whole["logprobs"]["token_logprobs"];
  EXPECT_FALSE(tokens.empty());
  const Streamed streamed = read_stream(serving, "/v1/completions", completion);
  EXPECT_EQ(streamed.text, whole["text"]);
  EXPECT_EQ(streamed.log_probabilities, tokens);

  const json chat{{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                  {"max_tokens", 6},
                  {"temperature", 0},
                  {"logprobs", true}};
  std::vector<double> expected;
  const json answer = serving.post("/v1/chat/completions", chat);
  for (const json& token : answer["choices"][0]["logprobs"]["content"]) expected.push_back(token["logprob"]);
  EXPECT_EQ(expected.size(), 6u);
  EXPECT_EQ(read_stream(serving, "/v1/chat/completions", chat).log_probabilities, expected);

  // What programs that compare models ask for: how likely a text is.
  const json echo{{"prompt", "Once upon a time"}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}};
  const json scored = serving.post("/v1/completions", echo);
  EXPECT_EQ(scored["choices"][0]["text"], "Once upon a time");
  const json& likely = scored["choices"][0]["logprobs"]["token_logprobs"];
  ASSERT_EQ(likely.size(), scored["usage"]["prompt_tokens"]);
  EXPECT_TRUE(likely[0].is_null());
  EXPECT_GT(likely.back(), -0.5);  // " time"
}

TEST(Serve, AnswersManyAtOnceAndSurvivesThoseWhoLeave) {
  const Serving serving({"--keep", "4"});
  const std::string text = serving.post("/v1/completions", once)["choices"][0]["text"];
  json forever = endless;
  forever["stream"] = true;
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 5; ++i)
    clients.emplace_back([&] {
      if (serving.post("/v1/completions", once)["choices"][0]["text"] == text) ++right;
    });
  clients.emplace_back([&] {  // leaves after the first piece
    auto client = serving.client();
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = forever.dump();
    request.content_receiver = [](const char*, std::size_t, std::uint64_t, std::uint64_t) { return false; };
    static_cast<void>(client.send(request));
  });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 5);
  // What was left behind has ended, too.
  for (int i = 0; i < 200; ++i) {
    if (serving.running() == 0) return;
    std::this_thread::sleep_for(50ms);
  }
  ADD_FAILURE() << "a request is still running";
}

TEST(Serve, RefusesWithAReason) {
  const Serving serving;
  EXPECT_EQ(serving.post("/v1/completions", {{"prompt", 3}}, 400)["error"]["param"], "prompt");
  EXPECT_NE(serving.post("/v1/completions", {{"prompt", std::string(4000, 'a')}}, 400)["error"]["message"]
                .get<std::string>()
                .find("context"),
            std::string::npos);
  EXPECT_EQ(serving.post("/v1/completions", {{"prompt", std::string(4000, 'a')}}, 400)["error"]["code"],
            "context_length_exceeded");
  EXPECT_TRUE(serving.post("/v1/nothing", once, 404).contains("error"));
  const auto form = serving.client().Post(
      "/v1/completions", "--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na\r\n--x--\r\n",
      "multipart/form-data; boundary=x");
  ASSERT_TRUE(form);
  EXPECT_EQ(form->status, 415) << form->body;
  const auto broken = serving.client().Post("/v1/completions", "{\"prompt\": \"\xff", "application/json");
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->status, 400);
  // Without saying beforehand how long it will be.
  const auto endless_body = serving.client().Post(
      "/v1/completions",
      [](std::size_t offset, httplib::DataSink& sink) {
        const std::string piece(1 << 20, ' ');
        if (offset >= 12u << 20) return sink.done(), true;
        return sink.write(piece.data(), piece.size());
      },
      "application/json");
  ASSERT_TRUE(endless_body);
  EXPECT_EQ(endless_body->status, 413);
  const auto large = serving.client().Post("/v1/completions", std::string(33 << 20, ' '), "application/json");
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 413);
  EXPECT_FALSE(serving.post("/v1/completions", once).contains("error"));
}

// Who waits for a whole answer shows in no other way that it was given up: by a limit of time, say, after
// which the request is sent again.
TEST(Serve, WholeAnswersEndWhenNobodyWaitsForThem) {
  const Serving serving({"--keep", "4"});
  auto client = serving.client();
  client.set_read_timeout(1s);
  EXPECT_FALSE(client.Post("/v1/completions", endless.dump(), "application/json"));
  for (int i = 0; i < 100 && serving.running() != 0; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(serving.running(), 0);
}

TEST(Serve, EmbedsTexts) {
  const Serving serving;
  const json answer = serving.post("/v1/embeddings",
                                   {{"input", {"The cat sat.", "A cat was sitting.", "Rockets burn fuel."}}});
  ASSERT_EQ(answer["data"].size(), 3u) << answer;
  EXPECT_EQ(answer["object"], "list");
  EXPECT_GT(answer["usage"]["prompt_tokens"], 8);
  std::vector<std::vector<float>> vectors;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answer["data"][i]["index"], i);
    vectors.push_back(answer["data"][i]["embedding"].get<std::vector<float>>());
    float length = 0;
    for (const float number : vectors.back()) length += number * number;
    EXPECT_NEAR(length, 1, 1e-4);
  }
  // As OpenAI's own client asks for it.
  const json text =
      serving.post("/v1/embeddings", {{"input", "The cat sat."}, {"encoding_format", "base64"}});
  const std::string digits = text["data"][0]["embedding"];
  EXPECT_EQ(digits.size(), (4 * vectors[0].size() + 2) / 3 * 4);
  const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < digits.size() && digits[i] != '='; ++i) {
    bits = bits << 6 | static_cast<std::uint32_t>(alphabet.find(digits[i]));
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 255);
  }
  ASSERT_EQ(bytes.size(), 4 * vectors[0].size());
  std::vector<float> same(vectors[0].size());
  std::memcpy(same.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(same[i], vectors[0][i], 2e-3);

  EXPECT_EQ(serving.post("/v1/embeddings", json::object(), 400)["error"]["param"], "input");
  EXPECT_EQ(serving.post("/v1/embeddings", {{"input", json::array()}}, 400)["error"]["param"], "input");
  EXPECT_EQ(
      serving.post("/v1/embeddings", {{"input", "x"}, {"encoding_format", "int8"}}, 400)["error"]["param"],
      "encoding_format");
  EXPECT_EQ(serving.post("/v1/embeddings", {{"input", "x"}, {"dimensions", 7}}, 400)["error"]["param"],
            "dimensions");
  std::string long_text;
  for (int i = 0; i < 20000; ++i) long_text += "word ";
  EXPECT_EQ(serving.post("/v1/embeddings", {{"input", long_text}}, 400)["error"]["code"],
            "context_length_exceeded");
}

TEST(Serve, GivesSeveralAnswers) {
  const Serving serving;
  const std::string text = serving.post("/v1/completions", once)["choices"][0]["text"];
  json several = once;
  several["prompt"] = {"Once upon a time", "The"};
  several["n"] = 2;
  json whole = serving.post("/v1/completions", several);
  ASSERT_EQ(whole["choices"].size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(whole["choices"][i]["index"], i);
  EXPECT_EQ(whole["choices"][0]["text"], text);
  EXPECT_EQ(whole["choices"][1]["text"], text);
  EXPECT_EQ(whole["choices"][2]["text"], whole["choices"][3]["text"]);
  EXPECT_NE(whole["choices"][2]["text"], text);
  EXPECT_EQ(whole["usage"]["completion_tokens"], 48);

  several["stream"] = true;
  several["stream_options"] = {{"include_usage", true}};
  const auto streamed = serving.client().Post("/v1/completions", several.dump(), "application/json");
  ASSERT_TRUE(streamed);
  std::vector<std::string> texts(4), reasons(4);
  json usage;
  std::istringstream lines(streamed->body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const json event = json::parse(line.substr(6));
    if (event["choices"].empty()) {
      usage = event["usage"];
      continue;
    }
    const json& choice = event["choices"][0];
    texts.at(choice["index"]) += choice["text"];
    if (!choice["finish_reason"].is_null()) reasons.at(choice["index"]) = choice["finish_reason"];
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["text"]) << i;
    EXPECT_EQ(reasons[i], "length") << i;
  }
  EXPECT_EQ(usage["completion_tokens"], 48);
  EXPECT_EQ(usage["prompt_tokens"], whole["usage"]["prompt_tokens"]);

  // With one seed they differ, and are the same each time.
  const json seeded{{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                    {"max_tokens", 12},
                    {"n", 3},
                    {"temperature", 2},
                    {"seed", 5}};
  json answers = serving.post("/v1/chat/completions", seeded)["choices"];
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_NE(answers[0]["message"]["content"], answers[1]["message"]["content"]);
  EXPECT_EQ(answers, serving.post("/v1/chat/completions", seeded)["choices"]);
}

TEST(Serve, TellsOfTheModelAndOfItsWork) {
  const Serving serving({"--name", "org/small"});
  const auto model = serving.client().Get("/v1/models/org/small");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->status, 200) << model->body;
  EXPECT_EQ(json::parse(model->body)["id"], "org/small");
  const auto none = serving.client().Get("/v1/models/large");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->status, 404);
  EXPECT_EQ(json::parse(none->body)["error"]["code"], "model_not_found");
  serving.post("/v1/completions", once);
  const auto metrics = serving.client().Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_NE(metrics->body.find("\nhearth_generated_tokens_total 12\n"), std::string::npos) << metrics->body;
  EXPECT_NE(metrics->body.find("\nhearth_requests_total 1\n"), std::string::npos) << metrics->body;
}

// Web pages may use it that come from this machine, or from where it was told.
TEST(Serve, AnswersPagesOfKnownOrigins) {
  const Serving serving({"--api-key", "secret", "--origin", "https://chat.example"});
  const auto allowed = [&](const std::string& origin) {
    const auto asked = serving.client().Options("/v1/chat/completions",
                                                {{"Origin", origin},
                                                 {"Access-Control-Request-Method", "POST"},
                                                 {"Access-Control-Request-Headers", "authorization,x-more"}});
    EXPECT_TRUE(asked);
    if (!asked || asked->get_header_value("Access-Control-Allow-Origin") != origin) return false;
    EXPECT_EQ(asked->status, 204);
    EXPECT_EQ(asked->get_header_value("Access-Control-Allow-Headers"), "authorization,x-more");
    // On what follows, too, be it refused.
    const auto refused =
        serving.client().Post("/v1/completions", {{"Origin", origin}}, once.dump(), "application/json");
    EXPECT_TRUE(refused);
    return refused && refused->status == 401 &&
           refused->get_header_value("Access-Control-Allow-Origin") == origin;
  };
  for (const char* origin :
       {"http://localhost:3000", "http://127.0.0.1", "https://[::1]:80", "https://chat.example"})
    EXPECT_TRUE(allowed(origin)) << origin;
  for (const char* origin : {"http://localhost.example", "https://chat.example.com",
                             "http://127.0.0.1.example", "https://example.com", "null"})
    EXPECT_FALSE(allowed(origin)) << origin;
}

// Browsers send this without asking first; the answer alone is kept from the page.
TEST(Serve, DoesNothingForPagesOfOtherOrigins) {
  const Serving serving({"--origin", "https://chat.example"});
  const auto status = [&](const httplib::Headers& headers) {
    const auto answer = serving.client().Post("/v1/completions", headers, once.dump(), "text/plain");
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"Origin", "http://localhost:3000"}}), 200);
  EXPECT_EQ(status({{"Origin", "https://chat.example"}}), 200);
  EXPECT_EQ(status({{"Origin", "http://own.example"}, {"Host", "own.example"}}),
            200);  // behind another server
  EXPECT_EQ(status({{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status({{"Origin", "null"}}), 403);
}

TEST(Serve, AsksForTheKey) {
  const Serving serving({"--api-key", "secret"});
  EXPECT_EQ(serving.post("/v1/completions", once, 401)["error"]["type"], "authentication_error");
  // On one connection, where nothing of the refused request may be left.
  auto client = serving.client();
  client.set_keep_alive(true);
  EXPECT_EQ(client.Post("/v1/completions", once.dump(), "application/json")->status, 401);
  client.set_bearer_token_auth("secret");
  const auto response = client.Post("/v1/completions", once.dump(), "application/json");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_TRUE(serving.client().Get("/health"));
}

TEST(Serve, StopsInTheMiddleOfAnAnswer) {
  Serving serving({"--keep", "4"});
  std::thread streaming([&] {
    const Streamed streamed = read_stream(serving, "/v1/completions", endless);
    EXPECT_FALSE(streamed.done);
    EXPECT_EQ(streamed.last["error"], "the server is stopping");
  });
  std::thread whole([&] { serving.post("/v1/completions", endless, 503); });
  for (int i = 0; i < 200 && serving.running() < 2; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(serving.running(), 2);
  EXPECT_EQ(serving.stop(SIGTERM), 0) << serving.log();
  streaming.join();
  whole.join();
}

// As every library for HTTP keeps them.
TEST(Serve, StopsAtOnceWhereConnectionsAreIdle) {
  Serving serving;
  httplib::Client idle = serving.client();
  idle.set_keep_alive(true);
  ASSERT_TRUE(idle.Get("/health"));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(serving.stop(SIGINT), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
}

TEST(Serve, SaysThatAPortIsTaken) {
  const Serving serving;
  const std::string text = serving.log();
  const auto at = text.find("127.0.0.1:");
  const std::string port = std::to_string(std::stoi(text.substr(at + 10)));
  const test::TemporaryFolder folder;
  // Before it looks at the model.
  const std::string command = "timeout 20 " HEARTH_COMMAND " serve nothing.gguf --device cpu --port " + port +
                              " 2>" + (folder / "errors").string();
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::ifstream file(folder / "errors");
  const std::string errors{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(errors.find("cannot listen on"), std::string::npos) << errors;
}

}  // namespace
}  // namespace hearth
#else
TEST(Serve, IsNotBuilt) { GTEST_SKIP() << "built without cpp-httplib, or without the hearth command"; }
#endif
