// `hearth serve`: a language model behind the HTTP interface of OpenAI.
#include "cli/commands.h"
#ifdef HEARTH_HAVE_HTTPLIB
#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/say.h"
#include "cli/checks.h"
#include "cli/language_model.h"
#include "hearth/batcher.h"
#include "hearth/error.h"
#include "llm/openai.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

namespace openai = llm::openai;

struct ServeOptions : LanguageModelOptions {
  std::string host = "127.0.0.1", key, name, template_file;
  std::vector<std::string> origins;
  int port = 8080;
  std::int64_t sequences = 4;
};

// What the choices of a request have made so far, from the batcher's thread to the one that answers it.
class Answer {
 public:
  explicit Answer(std::size_t choices) : results_(choices), left_(choices) {}

  struct Piece {
    std::size_t choice = 0;
    std::string text = {};
    std::optional<llm::LogProbabilities> log_probabilities = {};
    bool last = false;  // of its choice: there is no text, but a result
  };

  bool add(std::size_t choice, const llm::Generated& next) {
    const std::lock_guard lock(mutex_);
    if (!next.text.empty() || next.log_probabilities != nullptr) {
      Piece& piece = pieces_.emplace_back(Piece{choice, std::string(next.text)});
      if (next.log_probabilities != nullptr) piece.log_probabilities = *next.log_probabilities;
    }
    changed_.notify_one();
    return !abandoned_;
  }
  void end(std::size_t choice, llm::GenerateResult result, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error && result.reason == llm::FinishReason::cancelled)
      error = std::make_exception_ptr(Error("the server is stopping"));
    results_[choice] = std::move(result);
    if (!error_) error_ = std::move(error);
    pieces_.push_back({.choice = choice, .last = true});
    --left_;
    changed_.notify_one();
  }
  // Nobody reads it any more.
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }

  // The next piece; nothing when there are no more. Where that takes its time, `wanted` is asked now and
  // then, and ends it by saying no.
  template <class Wanted>
  std::optional<Piece> next(const Wanted& wanted) {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 200ms, [&] { return left_ == 0 || !pieces_.empty(); }))
      if (!wanted()) return std::nullopt;
    if (pieces_.empty()) return std::nullopt;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    return piece;
  }
  // Waits for the end, and asks `wanted` now and then; false: that has said no.
  template <class Wanted>
  bool ends(const Wanted& wanted) {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 200ms, [&] { return left_ == 0; }))
      if (!wanted()) return false;
    return true;
  }
  // Those that have ended; throws what went wrong with any of them.
  const std::vector<llm::GenerateResult>& results() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return results_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  std::vector<llm::GenerateResult> results_;
  std::exception_ptr error_;  // the first
  std::size_t left_;          // choices that have not ended
  bool abandoned_ = false;
};

// All that this process has open; nothing where the system does not say.
std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    numbers.push_back(number);
  }
  return numbers;
}

// Clients keep connections open that they may need again, and cpp-httplib waits for what they say next: it
// hears that there is nothing more. What is being written goes on.
void stop_listening_to_clients(int port) {
  const auto port_of = [](const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
    if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
    return in_port_t{0};
  };
  for (const int number : open_descriptors()) {
    sockaddr_storage own{}, other{};
    socklen_t own_size = sizeof own, other_size = sizeof other;
    if (getsockname(number, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 && port_of(own) == port &&
        getpeername(number, reinterpret_cast<sockaddr*>(&other), &other_size) == 0)
      shutdown(number, SHUT_RD);
  }
}

// The connection that a request came by. cpp-httplib does not say which it is: the one whose other end has
// the client's address.
class Connection {
 public:
  explicit Connection(const httplib::Request& request) {
    for (const int number : open_descriptors())
      if (leads_to(number, request)) socket_ = number;
  }

  // False when the client has closed it; true where that cannot be told.
  bool is_open() const {
    if (socket_ < 0) return true;
    char byte = 0;
    const auto count = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
  }

 private:
  static bool leads_to(int number, const httplib::Request& request) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (getpeername(number, plain, &size) != 0) return false;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    return getnameinfo(plain, size, host.data(), host.size(), port.data(), port.size(),
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
           request.remote_addr == host.data() && std::to_string(request.remote_port) == port.data();
  }

  int socket_ = -1;
};

// Whether a web page comes from a server of this machine: http://localhost:3000.
bool is_local(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"})
    for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"})
      if (origin.starts_with(scheme) && origin.substr(scheme.size()).starts_with(host)) {
        const std::string_view rest = origin.substr(scheme.size() + host.size());
        if (rest.empty() || rest.front() == ':') return true;
      }
  return false;
}

// A place where clients knock, taken before a model is loaded: that takes its time, and may be in vain.
struct Listener {
  httplib::Server server;
  int port = -1;

  explicit Listener(const ServeOptions& options) {
    // Not as by default, where two servers may have one port, and share its requests.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    errno = 0;
    if (options.port == 0)
      port = server.bind_to_any_port(options.host);
    else if (server.bind_to_port(options.host, options.port))
      port = options.port;
    if (port < 0)
      throw Error(fmt::format("cannot listen on {}:{} ({}); --host and --port say where", options.host,
                              options.port, errno != 0 ? std::strerror(errno) : "no such host"));
  }
};

class Server {
 public:
  // `chat_template`: the text of one; empty: the model's.
  Server(const ServeOptions& options, Listener& listener, const llm::Model& model,
         const llm::GenerateOptions& defaults, const std::string& chat_template)
      : options_(options),
        interface_(model, options.name.empty() ? name_of(options.model) : options.name, defaults,
                   options.template_file.empty() ? model.chat_template() : chat_template),
        batcher_(model),
        server_(listener.server),
        port_(listener.port) {
    constexpr std::size_t connections = 64;
    server_.set_payload_max_length(most_body);
    const auto threads = connections + static_cast<std::size_t>(options.sequences);
    server_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };  // it takes it over
    add_routes();
  }

  // Returns when it was interrupted.
  int run() {
    const train::InterruptGuard interrupt(true, "\n");
    std::atomic<bool> listening = true;
    std::thread listener([&] {
      server_.listen_after_bind();
      listening = false;
    });
    const bool numbers = options_.host.find(':') != std::string::npos;  // of IPv6
    if (!options_.quiet || options_.port == 0)
      say("http://{}:{}/v1, {} at once; Ctrl-C stops it\n",
          numbers ? "[" + options_.host + "]" : options_.host, port_, options_.sequences);
    // Before it runs it cannot be stopped.
    while (listening && !server_.is_running()) std::this_thread::yield();
    while (listening && !interrupt.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const bool stopped = interrupt.requested();
    stopping_ = true;
    batcher_.stop();
    server_.stop();
    // Answers have a moment to come to their ends.
    for (int i = 0; listening; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (i >= 10) stop_listening_to_clients(port_);
    }
    listener.join();
    if (!stopped) throw Error("the server has ended by itself");
    return success;
  }

 private:
  static constexpr std::size_t most_body = 8 << 20;

  static std::string name_of(const std::string& model) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(model);
    return std::filesystem::is_directory(path) ? path.filename().string() : path.stem().string();
  }

  static void refuse(httplib::Response& response, int status, std::string_view message,
                     std::string_view type = "invalid_request_error", std::string_view field = {},
                     std::string_view code = {}) {
    response.status = status;
    response.set_content(openai::error_body(message, type, field, code), "application/json");
  }

  void add_routes() {
    using httplib::Request, httplib::Response;
    server_.Get("/health", [this](const Request&, Response& response) {
      const llm::Batcher::Stats stats = batcher_.stats();
      response.set_content(
          nlohmann::json{{"status", "ok"}, {"running", stats.running}, {"waiting", stats.waiting}}.dump(),
          "application/json");
    });
    server_.Get("/v1/models", [this](const Request& request, Response& response) {
      if (!knows_key(request)) return refuse_key(response);
      response.set_content(interface_.models(), "application/json");
    });
    server_.Get("/v1/models/(.+)", [this](const Request& request, Response& response) {
      if (!knows_key(request)) return refuse_key(response);
      const std::string name = request.matches[1];
      if (const auto model = interface_.model(name)) return response.set_content(*model, "application/json");
      refuse(response, 404, fmt::format("there is no model '{}'", name), "invalid_request_error", "model",
             "model_not_found");
    });
    server_.Get("/metrics", [this](const Request& request, Response& response) {
      if (!knows_key(request)) return refuse_key(response);
      response.set_content(metrics(), "text/plain; version=0.0.4");
    });
    // What a browser asks before it lets a page of another server send something.
    server_.Options(".*", [](const Request& request, Response& response) {
      response.status = 204;
      response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
      const std::string headers = request.get_header_value("Access-Control-Request-Headers");
      response.set_header("Access-Control-Allow-Headers",
                          headers.empty() ? "Authorization, Content-Type" : headers);
      response.set_header("Access-Control-Max-Age", "600");
    });
    server_.set_pre_routing_handler([this](const Request& request, Response& response) {
      const std::string origin = request.get_header_value("Origin");
      if (allows(origin)) {
        response.set_header("Access-Control-Allow-Origin", origin);
        response.set_header("Vary", "Origin");
      }
      return httplib::Server::HandlerResponse::Unhandled;
    });
    add_post("/v1/chat/completions", [this](const std::string& body) { return interface_.chat(body); });
    add_post("/v1/completions", [this](const std::string& body) { return interface_.completion(body); });
    add_post("/v1/embeddings", [this](const std::string& body) { return interface_.embedding(body); });
    server_.set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty()) return;
      refuse(response, response.status,
             response.status == 413   ? "the body is too long"
             : response.status == 404 ? fmt::format("there is no {} {}", request.method, request.path)
                                      : "this cannot be read as a request");
    });
    if (!options_.quiet)
      server_.set_logger([](const Request& request, const Response& response) {
        say("{} {} {}\n", request.method, request.path, response.status);
      });
  }

  // The whole body is read in any case: what is left of one would be taken for the next request.
  template <class Parse>
  void add_post(const char* path, const Parse& parse) {
    server_.Post(path, [this, parse](const httplib::Request& request, httplib::Response& response,
                                     const httplib::ContentReader& read) {
      const bool known = knows_key(request);
      if (request.is_multipart_form_data()) {  // which is read in another way
        read([](const auto&) { return true; }, [](const char*, std::size_t) { return true; });
        return known ? refuse(response, 415, "the body must be JSON, not a form") : refuse_key(response);
      }
      std::string body;
      std::size_t size = 0;
      const bool whole = read([&](const char* data, std::size_t count) {
        size += count;
        if (known && size <= most_body) body.append(data, count);
        return size <= 8 * most_body;  // else the connection is closed
      });
      if (!known) return refuse_key(response);
      if (is_foreign(request))
        return refuse(response, 403,
                      fmt::format("pages of {} may not use this server; --origin lets them",
                                  request.get_header_value("Origin")));
      constexpr int too_long = 413;  // of the response: by the length that was announced
      if (size > most_body || response.status == too_long)
        return refuse(response, too_long, "the body is too long");
      if (!whole) return refuse(response, 400, "the body was not sent to its end");
      answer(request, response, [&] { return parse(body); });
    });
  }

  bool knows_key(const httplib::Request& request) const {
    return options_.key.empty() || request.get_header_value("Authorization") == "Bearer " + options_.key;
  }
  static void refuse_key(httplib::Response& response) {
    refuse(response, 401, "the key is missing or wrong", "authentication_error");
  }

  bool allows(const std::string& origin) const {
    return !origin.empty() &&
           (is_local(origin) ||
            std::any_of(options_.origins.begin(), options_.origins.end(),
                        [&](const auto& known) { return known == "*" || known == origin; }));
  }

  // From a page of a server that is neither this one nor known. Browsers send some such requests without
  // asking, and only keep the answer from the page.
  bool is_foreign(const httplib::Request& request) const {
    const std::string origin = request.get_header_value("Origin");
    const auto host = origin.find("://");
    const bool own = host != std::string::npos && origin.substr(host + 3) == request.get_header_value("Host");
    return !origin.empty() && !own && !allows(origin);
  }

  // As Prometheus reads it.
  std::string metrics() const {
    const llm::Batcher::Stats stats = batcher_.stats();
    std::string text;
    const auto add = [&](const char* name, const char* kind, const char* help, std::int64_t value) {
      text += fmt::format("# HELP hearth_{0} {2}\n# TYPE hearth_{0} {1}\nhearth_{0} {3}\n", name, kind, help,
                          value);
    };
    add("requests_running", "gauge", "Requests that are being answered", stats.running);
    add("requests_waiting", "gauge", "Requests that wait", stats.waiting);
    add("requests_total", "counter", "Requests that have ended", stats.finished);
    add("prompt_tokens_total", "counter", "Tokens of prompts that were computed", stats.prompt_tokens);
    add("generated_tokens_total", "counter", "Tokens that were generated", stats.tokens);
    add("steps_total", "counter", "Steps of generation, which requests share", stats.steps);
    return text;
  }

  template <class Parse>
  void answer(const httplib::Request& request, httplib::Response& response, const Parse& parse) {
    try {
      auto call = std::make_shared<openai::Call>(parse());
      auto made = std::make_shared<Answer>(call->choices());
      submit(*call, made);
      if (call->stream) return stream(response, std::move(call), std::move(made));
      constexpr int gone = 499;  // for the log
      const Connection connection(request);
      if (made->ends([&] { return connection.is_open(); }))
        return response.set_content(interface_.answer(*call, made->results()), "application/json");
      made->abandon();
      refuse(response, gone, "the client has left");
    } catch (const openai::BadRequest& error) {
      refuse(response, 400, error.what(), "invalid_request_error", error.field(), error.code());
    } catch (const ValueError& error) {
      refuse(response, 400, error.what());
    } catch (const TemplateError& error) {
      refuse(response, 400, error.what(), "invalid_request_error", "messages");
    } catch (const std::exception& error) {
      refuse(response, stopping_ ? 503 : 500, error.what(), "server_error");
    }
  }

  void submit(const openai::Call& call, const std::shared_ptr<Answer>& made) {
    try {
      for (std::size_t i = 0; i < call.choices(); ++i) {
        const auto each = [made, i](const llm::Generated& next) { return made->add(i, next); };
        const auto done = [made, i](llm::GenerateResult result, std::exception_ptr error) {
          made->end(i, std::move(result), std::move(error));
        };
        if (call.embeds)
          batcher_.embed(call.prompt_of(i), each, done);
        else
          batcher_.submit(call.prompt_of(i), call.options_of(i), each, done);
      }
    } catch (...) {
      made->abandon();  // those that were taken
      throw;
    }
  }

  void stream(httplib::Response& response, std::shared_ptr<openai::Call> call, std::shared_ptr<Answer> made) {
    auto streams = std::make_shared<std::vector<openai::AnswerStream>>();
    for (std::size_t i = 0; i < call->choices(); ++i) streams->emplace_back(interface_, *call, i);
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, call, made, streams](std::size_t, httplib::DataSink& sink) {
          const bool there = write_all(sink, *call, *made, *streams);
          made->abandon();
          sink.done();
          return there;
        },
        [made](bool) { made->abandon(); });
  }

  // False: the client has left.
  bool write_all(httplib::DataSink& sink, const openai::Call& call, Answer& made,
                 std::vector<openai::AnswerStream>& streams) const {
    bool there = std::all_of(streams.begin(), streams.end(),
                             [&](auto& stream) { return write(sink, stream.begin()); });
    try {
      while (there) {
        const auto piece = made.next([&] { return there = sink.is_writable(); });
        if (!piece) break;
        openai::AnswerStream& stream = streams[piece->choice];
        there = write(sink, piece->last ? stream.end(made.results()[piece->choice])
                                        : stream.add(piece->text, piece->log_probabilities));
      }
      return there && write(sink, openai::AnswerStream::usage(interface_, call, made.results())) &&
             write(sink, {"[DONE]"});
    } catch (const std::exception& error) {
      return write(sink, {openai::error_body(error.what(), "server_error")});
    }
  }

  static bool write(httplib::DataSink& sink, const std::vector<std::string>& events) {
    return std::all_of(events.begin(), events.end(), [&](const std::string& json) {
      const std::string event = "data: " + json + "\n\n";
      return sink.write(event.data(), event.size());
    });
  }

  const ServeOptions& options_;
  std::atomic<bool> stopping_ = false;
  openai::Interface interface_;
  llm::Batcher batcher_;
  httplib::Server& server_;
  int port_;
};

int serve(ServeOptions options) {
  options.load.sequences = options.sequences;
  const llm::GenerateOptions defaults = generate_options(options);
  const std::string chat_template =
      options.template_file.empty() ? std::string() : read_text_file(options.template_file);
  Listener listener(options);
  const llm::Model model = load_model(options);
  return Server(options, listener, model, defaults, chat_template).run();
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto options = std::make_shared<ServeOptions>();
  auto* command = app.add_subcommand("serve", "Let programs use a language model, as they use OpenAI's");
  add_language_model_options(*command, *options);
  // Those are for one text at a time.
  for (const char* name : {"--draft", "--lookup", "--draft-tokens"})
    command->remove_option(command->get_option(name));
  command->add_option("--host", options->host, "Address to listen on; 0.0.0.0: all of this machine")
      ->capture_default_str();
  command->add_option("--port", options->port, "Port to listen on; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--sequences", options->sequences,
                   "Requests that are answered at once, each with a context of its own; others wait")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--api-key", options->key,
                   "What clients must send as their key (default: none is asked for)")
      ->check(must_not_be_empty())
      ->envname("HEARTH_API_KEY");
  command->add_option("--name", options->name, "What the model is called (default: as its file)");
  command
      ->add_option("--template", options->template_file,
                   "A file with a chat template (Jinja) in place of the model's")
      ->check(must_not_be_empty());
  command
      ->add_option(
          "--origin", options->origins,
          "Web pages of this server (https://chat.example; *: of all) may use it from a browser, not "
          "only those of this machine; may be given several times")
      ->allow_extra_args(false)
      ->take_all();
  command->footer(
      "POST /v1/chat/completions and /v1/completions (with \"stream\": true, too), /v1/embeddings, GET "
      "/v1/models, /health and /metrics.\n"
      "The options of sampling are for requests that do not say otherwise.");
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace hearth::cli
#else
#include "hearth/error.h"

namespace hearth::cli {

void add_serve(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("serve", "Let programs use a language model (not in this build)");
  command->allow_extras();
  command->callback([&action] {
    action = []() -> int { throw Error("this program was built without cpp-httplib, which serving needs"); };
  });
}

}  // namespace hearth::cli
#endif
