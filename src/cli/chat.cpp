// `hearth chat`: a conversation with a language model.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/say.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/language_model.h"
#include "hearth/chat_template.h"
#include "hearth/error.h"
#include "llm/answer_reader.h"
#include "llm/bounded_json.h"
#include "llm/chat_tokens.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct ChatCommandOptions : LanguageModelOptions {
  std::string system, template_file;
};

constexpr std::string_view chat_help =
    "/clear         forget the conversation\n"
    "/system TEXT   say how the model should behave, and begin anew\n"
    "/again         another answer to the last message\n"
    "/save FILE     write the conversation as JSON\n"
    "/load FILE     go on with one\n"
    "/help          show this\n"
    "/exit          leave (so does the end of the input)\n"
    "A line that ends with \\ goes on in the next.\n";

class Conversation {
 public:
  // `chat_template`: the text of one; empty: the model's.
  Conversation(const ChatCommandOptions& options, const llm::GenerateOptions& generate,
               const llm::Model& model, const std::string& chat_template)
      : options_(options),
        generate_(generate),
        model_(model),
        session_(model),
        template_text_(options.template_file.empty() ? model.chat_template() : chat_template),
        template_(template_text_),
        format_(llm::answer_format(model.tokenizer(), template_text_)) {
    begin(options.system);
  }

  // False: the user wants to leave.
  bool take(const std::string& line) {
    if (!line.starts_with('/')) {
      or_as_before([&] {
        messages_.push_back({{"role", "user"}, {"content", line}});
        return answer();
      });
      return true;
    }
    const auto space = line.find(' ');
    const std::string command = line.substr(0, space),
                      argument = space == std::string::npos ? "" : line.substr(space + 1);
    if (command == "/exit" || command == "/quit") return false;
    if (command == "/clear")
      begin(system_);
    else if (command == "/system")
      begin(argument);
    else if (command == "/again")
      or_as_before([&] { return again(); });
    else if (command == "/save")
      save(argument);
    else if (command == "/load")
      load(argument);
    else if (command == "/help")
      say("{}", chat_help);
    else
      throw ValueError(
          fmt::format("there is no command {}; /help lists them (a message that begins so begins with a "
                      "space)",
                      command));
    return true;
  }

  // What stopped the last answer; 0: it came to its end.
  int signal() const { return signal_; }

 private:
  void begin(const std::string& system) {
    system_ = system;
    forgotten_ = 0;
    messages_ = nlohmann::ordered_json::array();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
  }

  // What cannot be answered is no part of the conversation.
  template <class Change>
  void or_as_before(const Change& change) {
    const nlohmann::ordered_json before = messages_;
    const std::size_t forgotten = forgotten_;
    const auto go_back = [&] {
      messages_ = before;
      forgotten_ = forgotten;
    };
    try {
      if (!change()) go_back();
    } catch (...) {
      go_back();
      throw;
    }
  }

  bool again() {
    if (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
    if (messages_.empty() || messages_.back()["role"] != "user")
      throw ValueError("there is no message to answer");
    return answer();
  }

  // False: it was stopped before there was anything of an answer.
  bool answer() {
    std::vector<TokenId> tokens = remembered_tokens();
    if (generate_.keep >= 0 && static_cast<std::int64_t>(tokens.size()) >= model_.context())
      while (static_cast<std::int64_t>(tokens.size()) * 2 > model_.context() && forget_one())
        tokens = remembered_tokens();
    if (static_cast<std::int64_t>(tokens.size()) >= model_.context())
      throw ValueError(
          fmt::format("the conversation has {} tokens, the context {}; /clear begins anew{}{}", tokens.size(),
                      model_.context(), generate_.keep < 0 ? ", --keep forgets the oldest messages" : "",
                      model_.context() < model_.config().context ? ", --ctx asks for a larger context" : ""));
    const train::InterruptGuard interrupt(true, "");
    llm::AnswerReader reader(format_, llm::begins_with_thoughts(model_.tokenizer(), tokens, format_));
    std::string thoughts, text;
    PromptProgress reading(options_.quiet, interrupt);
    llm::GenerateOptions generate = generate_;
    generate.special_text = reader.wants_special_text();
    generate.grammar_after = reader.end_of_thoughts();
    generate.reading = [&](std::int64_t read, std::int64_t all) { return reading.goes_on(read, all); };
    const auto show = [&](const llm::AnswerParts& parts) {
      reading.done();
      static const bool dims = isatty(STDOUT_FILENO) == 1;
      if (!parts.thoughts.empty())
        fmt::print("{}{}{}", dims ? "\x1b[2m" : "", parts.thoughts, dims ? "\x1b[0m" : "");
      if (!parts.text.empty())
        fmt::print("{}{}", text.empty() && !thoughts.empty() ? "\n\n" : "", parts.text);
      for (const llm::ToolCall& call : parts.calls) fmt::print("{}({})", call.name, call.arguments);
      std::fflush(stdout);
      thoughts += parts.thoughts;
      text += parts.text;
    };
    const llm::GenerateResult result = session_.generate(tokens, generate, [&](const llm::Generated& next) {
      show(reader.add(next.text));
      return !interrupt.requested();
    });
    show(reader.finish());
    fmt::print("\n");
    signal_ = interrupt.signal();
    if (result.tokens.empty() && interrupt.requested()) return false;
    if (generate_.sampling.seed != 0) ++generate_.sampling.seed;  // /again gives another answer
    if (!options_.quiet) say("[{}]\n", speed_text(result));
    messages_.push_back({{"role", "assistant"}, {"content", text}});
    if (!thoughts.empty()) messages_.back()["reasoning_content"] = thoughts;
    return true;
  }

  // Those of the messages that the model still gets: what it was told in the beginning, and the latest.
  std::vector<TokenId> remembered_tokens() const {
    nlohmann::ordered_json remembered = messages_;
    const std::size_t first = first_to_forget();
    for (std::size_t i = 0; i < forgotten_; ++i) remembered.erase(first);
    return llm::chat_tokens(model_, template_, remembered);
  }
  std::size_t first_to_forget() const {
    return !messages_.empty() && messages_.front()["role"] == "system" ? 1 : 0;
  }
  // The oldest message and the answer to it; false where only the last message is left.
  bool forget_one() {
    std::size_t next = first_to_forget() + forgotten_ + 1;
    while (next < messages_.size() && messages_[next]["role"] != "user") ++next;
    if (next >= messages_.size()) return false;
    forgotten_ = next - first_to_forget();
    return true;
  }

  void save(const std::string& path) const {
    if (path.empty()) throw ValueError("/save needs the name of a file");
    write_atomically(path, messages_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  static nlohmann::ordered_json parsed(const std::string& path) {
    try {
      return llm::parse_bounded(read_text_file(path));
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", path, error.what()));
    }
  }

  void load(const std::string& path) {
    const auto json = parsed(path);
    bool fine = json.is_array();
    if (fine)
      for (const auto& message : json)
        fine = fine && message.is_object() && message.contains("role") && message["role"].is_string() &&
               message.contains("content");
    if (!fine) throw FormatError(fmt::format("{}: not a conversation", path));
    messages_ = json;
    forgotten_ = 0;
  }

  const ChatCommandOptions& options_;
  llm::GenerateOptions generate_;
  const llm::Model& model_;
  llm::Session session_;
  const std::string template_text_;
  ChatTemplate template_;
  const llm::AnswerFormat format_;
  std::string system_;
  nlohmann::ordered_json messages_;
  std::size_t forgotten_ = 0;  // messages for which there was no room any more
  int signal_ = 0;
};

// What the user says: a line, and those after it while a backslash ends them. Nothing: that was all.
std::optional<std::string> read_message(bool terminal) {
  std::string message;
  for (bool more = true; more;) {
    if (terminal) fmt::print("{}", message.empty() ? "> " : ". ");
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) return message.empty() ? std::nullopt : std::optional(message);
    if (line.ends_with('\r')) line.pop_back();
    more = line.ends_with('\\');
    if (more) line.back() = '\n';
    message += line;
  }
  return message;
}

int chat(const ChatCommandOptions& options) {
  llm::GenerateOptions generate = generate_options(options);
  const std::string chat_template =
      options.template_file.empty() ? std::string() : read_text_file(options.template_file);
  const llm::Model model = load_model(options);
  if (model.chat_template().empty() && options.template_file.empty())
    throw ValueError(
        "this model has no chat template; `hearth run` goes on from a text, --template gives one");
  load_draft(options, generate);
  Conversation conversation(options, generate, model, chat_template);
  const bool terminal = isatty(STDIN_FILENO);
  if (terminal && !options.quiet) say("/help lists commands; Ctrl-C stops an answer.\n");
  while (const std::optional<std::string> message = read_message(terminal)) {
    if (message->empty()) continue;
    try {
      if (!conversation.take(*message)) break;
    } catch (const Error& error) {
      say("hearth: error: {}\n", error.what());
      if (!terminal) return failure;
    }
    // At a terminal Ctrl-C asks for quiet, and the talk goes on.
    if (conversation.signal() == SIGTERM || (conversation.signal() != 0 && !terminal)) return interrupted;
  }
  if (terminal) fmt::print("\n");
  return success;
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  auto options = std::make_shared<ChatCommandOptions>();
  auto* command = app.add_subcommand("chat", "Talk with a language model");
  add_language_model_options(*command, *options);
  command->add_option("--system", options->system, "How the model should behave");
  command
      ->add_option("--template", options->template_file,
                   "A file with a chat template (Jinja) in place of the model's")
      ->check(must_not_be_empty());
  command->callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace hearth::cli
