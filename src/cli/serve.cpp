// `hearth serve`: a language model behind the HTTP interface of OpenAI.
#include "cli/commands.h"
#ifdef HEARTH_HAVE_HTTPLIB
#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/say.h"
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
  int port = 8080;
  std::int64_t sequences = 4;
};

// What a request has made so far, from the batcher's thread to the one that answers it.
class Answer {
 public:
  bool add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (!text.empty()) pieces_.emplace_back(text);
    changed_.notify_one();
    return !abandoned_;
  }
  void end(llm::GenerateResult result, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    error_ = std::move(error);
    ended_ = true;
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
  std::optional<std::string> next(const Wanted& wanted) {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 200ms, [&] { return ended_ || !pieces_.empty(); }))
      if (!wanted()) return std::nullopt;
    if (pieces_.empty()) return std::nullopt;
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    return piece;
  }
  // When all pieces have come; throws what went wrong.
  const llm::GenerateResult& result() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    if (error_) std::rethrow_exception(error_);
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  llm::GenerateResult result_;
  std::exception_ptr error_;
  bool ended_ = false, abandoned_ = false;
};

class Server {
 public:
  Server(const ServeOptions& options, const llm::Model& model, const llm::GenerateOptions& defaults)
      : options_(options),
        interface_(
            model, options.name.empty() ? name_of(options.model) : options.name, defaults,
            options.template_file.empty() ? model.chat_template() : read_text_file(options.template_file)),
        batcher_(model) {
    constexpr std::size_t connections = 64;
    server_.set_payload_max_length(most_body);
    // Not as by default, where two servers may have one port, and share its requests.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    const auto threads = connections + static_cast<std::size_t>(options.sequences);
    server_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };  // it takes it over
    add_routes();
  }

  // Returns when it was interrupted.
  int run() {
    errno = 0;
    const int port = options_.port == 0
                         ? server_.bind_to_any_port(options_.host)
                         : (server_.bind_to_port(options_.host, options_.port) ? options_.port : -1);
    if (port < 0)
      throw Error(fmt::format("cannot listen on {}:{} ({}); --host and --port say where", options_.host,
                              options_.port, errno != 0 ? std::strerror(errno) : "no such host"));
    const train::InterruptGuard interrupt(true);
    std::atomic<bool> listening = true;
    std::thread listener([&] {
      server_.listen_after_bind();
      listening = false;
    });
    if (!options_.quiet || options_.port == 0)
      say("http://{}:{}/v1, {} at once; Ctrl-C stops it\n", options_.host, port, options_.sequences);
    // Before it runs it cannot be stopped.
    while (listening && !server_.is_running()) std::this_thread::yield();
    while (listening && !interrupt.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const bool stopped = interrupt.requested();
    stopping_ = true;
    batcher_.stop();
    server_.stop();
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
                     std::string_view type = "invalid_request_error", std::string_view field = {}) {
    response.status = status;
    response.set_content(openai::error_body(message, type, field), "application/json");
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
    add_post("/v1/chat/completions", [this](const std::string& body) { return interface_.chat(body); });
    add_post("/v1/completions", [this](const std::string& body) { return interface_.completion(body); });
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
      std::string body;
      std::size_t size = 0;
      const bool whole = read([&](const char* data, std::size_t count) {
        size += count;
        if (known && size <= most_body) body.append(data, count);
        return size <= 8 * most_body;  // else the connection is closed
      });
      if (!known) return refuse_key(response);
      constexpr int too_long = 413;  // of the response: by the length that was announced
      if (size > most_body || response.status == too_long)
        return refuse(response, too_long, "the body is too long");
      if (!whole) return refuse(response, 400, "the body was not sent to its end");
      answer(response, [&] { return parse(body); });
    });
  }

  bool knows_key(const httplib::Request& request) const {
    return options_.key.empty() || request.get_header_value("Authorization") == "Bearer " + options_.key;
  }
  static void refuse_key(httplib::Response& response) {
    refuse(response, 401, "the key is missing or wrong", "authentication_error");
  }

  template <class Parse>
  void answer(httplib::Response& response, const Parse& parse) {
    try {
      auto call = std::make_shared<openai::Call>(parse());
      auto made = std::make_shared<Answer>();
      batcher_.submit(
          call->prompt, call->options, [made](TokenId, std::string_view text) { return made->add(text); },
          [made](llm::GenerateResult result, std::exception_ptr error) {
            made->end(std::move(result), std::move(error));
          });
      if (call->stream)
        stream(response, std::move(call), std::move(made));
      else
        response.set_content(interface_.answer(*call, finished(*made)), "application/json");
    } catch (const openai::BadRequest& error) {
      refuse(response, 400, error.what(), "invalid_request_error", error.field());
    } catch (const ValueError& error) {
      refuse(response, 400, error.what());
    } catch (const TemplateError& error) {
      refuse(response, 400, error.what(), "invalid_request_error", "messages");
    } catch (const std::exception& error) {
      refuse(response, stopping_ ? 503 : 500, error.what(), "server_error");
    }
  }

  static const llm::GenerateResult& finished(Answer& made) {
    const llm::GenerateResult& result = made.result();
    if (result.reason == llm::FinishReason::cancelled) throw Error("the server is stopping");
    return result;
  }

  void stream(httplib::Response& response, std::shared_ptr<openai::Call> call, std::shared_ptr<Answer> made) {
    auto stream = std::make_shared<openai::AnswerStream>(interface_, *call);
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream",
        [call, made, stream](std::size_t offset, httplib::DataSink& sink) {
          bool there = offset > 0 || write(sink, stream->begin());
          while (there)
            if (const auto piece = made->next([&] { return there = sink.is_writable(); }))
              there = write(sink, stream->add(*piece));
            else
              break;
          if (there)
            write_end(sink, *stream, *made);
          else
            made->abandon();
          sink.done();
          return there;
        },
        [made](bool) { made->abandon(); });
  }

  static bool write(httplib::DataSink& sink, const std::vector<std::string>& events) {
    return std::all_of(events.begin(), events.end(), [&](const std::string& json) {
      const std::string event = "data: " + json + "\n\n";
      return sink.write(event.data(), event.size());
    });
  }
  static void write_end(httplib::DataSink& sink, const openai::AnswerStream& stream, Answer& made) {
    try {
      write(sink, stream.end(finished(made)));
      write(sink, {"[DONE]"});
    } catch (const std::exception& error) {
      write(sink, {openai::error_body(error.what(), "server_error")});
    }
  }

  const ServeOptions& options_;
  std::atomic<bool> stopping_ = false;
  openai::Interface interface_;
  llm::Batcher batcher_;
  httplib::Server server_;
};

int serve(ServeOptions options) {
  options.load.sequences = options.sequences;
  const llm::GenerateOptions defaults = generate_options(options);
  const llm::Model model = load_model(options);
  return Server(options, model, defaults).run();
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
      ->envname("HEARTH_API_KEY");
  command->add_option("--name", options->name, "What the model is called (default: as its file)");
  command->add_option("--template", options->template_file,
                      "A file with a chat template (Jinja) in place of the model's");
  command->footer(
      "POST /v1/chat/completions and /v1/completions (with \"stream\": true, too), GET /v1/models and "
      "/health.\n"
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
