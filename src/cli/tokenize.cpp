// `hearth tokenize`: text to tokens and back, as a model sees them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"

namespace hearth::cli {
namespace {

struct TokenizeOptions {
  std::string model, ids;
  std::vector<std::string> texts;
  bool json = false, count = false, special = false, bare = false, decode = false;
};

std::vector<TokenId> parse_ids(std::string_view text) {
  constexpr std::string_view separators = ", \t\n[]";
  std::vector<TokenId> ids;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) return ids;
    const auto number = text.substr(0, text.find_first_of(separators));
    TokenId id = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (error != std::errc() || end != number.data() + number.size())
      throw ValueError(fmt::format("{} is not a token id", in_quotes(number)));
    ids.push_back(id);
    text.remove_prefix(number.size());
  }
}

std::string text_of(const TokenizeOptions& options) {
  if (options.texts.empty())
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  return fmt::format("{}", fmt::join(options.texts, " "));
}

std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int decode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string text = tokenizer.decode(parse_ids(options.ids));
  fmt::print("{}\n", options.json ? to_text({{"text", text}}) : text);
  return success;
}

int tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = Tokenizer::load(options.model);
  if (options.decode) return decode(tokenizer, options);
  const auto ids =
      tokenizer.encode(text_of(options), {.add_special = !options.bare, .parse_special = options.special});
  if (options.json) {
    nlohmann::json json{{"count", ids.size()}};
    if (!options.count) {
      json["ids"] = ids;
      json["pieces"] = nlohmann::json::array();
      for (const TokenId id : ids) json["pieces"].push_back(tokenizer.text(id));
    }
    fmt::print("{}\n", to_text(json));
  } else if (options.count) {
    fmt::print("{}\n", ids.size());
  } else {
    for (const TokenId id : ids)
      fmt::print("{:>7}  {}{}\n", id, in_quotes(tokenizer.text(id)),
                 tokenizer.is_special(id) ? "  special" : "");
  }
  return success;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  auto* command = app.add_subcommand("tokenize", "Show the tokens that a model makes of a text");
  command
      ->add_option("model", options->model,
                   "A GGUF file, a folder, or a file with a tokenizer (tokenizer.json, tokenizer.model)")
      ->required();
  auto* text = command->add_option("text", options->texts,
                                   "The text, words joined by spaces; without it, standard input");
  command->add_flag("--count", options->count, "Only how many tokens there are");
  command->add_flag("--special", options->special, "Special tokens written in the text become those tokens");
  command->add_flag("--bare", options->bare, "Without the tokens that a model wants before and after a text");
  auto* ids = command->add_option("--decode", options->ids, "The text of these tokens instead: 1,15043,3186");
  ids->excludes(text);
  command->add_flag("--json", options->json, "Print ids and pieces as JSON");
  command->callback([options, ids, &action] {
    options->decode = ids->count() > 0;
    action = [options] { return tokenize(*options); };
  });
}

}  // namespace hearth::cli
