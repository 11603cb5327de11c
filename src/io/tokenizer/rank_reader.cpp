// tiktoken's rank files.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "io/bytes.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {
namespace {

struct Rank {
  std::string bytes;
  std::int64_t rank = 0;
};

// Nothing for a line that is something else.
std::optional<Rank> parse_line(std::string_view line) {
  const auto space = line.find(' ');
  if (space == line.npos) return std::nullopt;
  auto bytes = from_base64(line.substr(0, space));
  const auto number = line.substr(space + 1);
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != number.data() + number.size())
    return std::nullopt;
  return Rank{std::move(*bytes), rank};
}

std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

bool looks_like_ranks(std::string_view text) { return parse_line(take_line(text)).has_value(); }

Definition read_ranks(std::string_view text, const RankOptions& options, std::string_view source) {
  std::vector<Rank> ranks;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto line = take_line(text);
    if (line.empty()) continue;
    auto rank = parse_line(line);
    if (!rank)
      fail(source, fmt::format("line {} is {}; bytes in base64, a space and a number are expected", number,
                               io::show(line)));
    ranks.push_back(std::move(*rank));
  }

  Definition definition;
  definition.source = source;
  const auto count = ranks.size() + options.special.size();
  for (auto& [bytes, rank] : ranks) {
    auto& token = token_at(definition, rank, count);
    if (!token.text.empty()) fail(source, fmt::format("the rank {} occurs twice", rank));
    token.text = std::move(bytes);
    token.score = -static_cast<float>(rank);
  }
  for (const auto& [name, id] : options.special) {
    auto& token = token_at(definition, id, count);
    if (!token.text.empty())
      fail(source, fmt::format("the special token {} has the id of another", io::show(name)));
    token.text = name;
    token.kind = TokenKind::control;
  }
  definition.pre_tokeniser = {SplitStep{options.pattern}};
  definition.model = BpeModel{{.symbols = BpeSymbols::bytes, .whole_pieces_first = true}};
  if (const auto end = options.special.find("<|endoftext|>"); end != options.special.end())
    definition.special.eos = end->second;
  return definition;
}

std::optional<RankOptions> known_ranks(std::string_view name) {
  if (name == "cl100k_base")
    return RankOptions{cl100k_pattern(),
                       {{"<|endoftext|>", 100257},
                        {"<|fim_prefix|>", 100258},
                        {"<|fim_middle|>", 100259},
                        {"<|fim_suffix|>", 100260},
                        {"<|endofprompt|>", 100276}}};
  if (name == "o200k_base")
    return RankOptions{o200k_pattern(), {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}};
  if (name == "p50k_base" || name == "r50k_base")
    return RankOptions{gpt2_pattern(), {{"<|endoftext|>", 50256}}};
  return std::nullopt;
}

}  // namespace hearth::tokenizer
