// Learns byte-level BPE: count pieces, then merge the most frequent pair until the vocabulary is full.
#include "io/tokenizer/bpe_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <queue>
#include <span>

#include "base/thread_pool.h"
#include "hearth/error.h"
#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/pre_tokeniser.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

KnownPreTokeniser known(const std::string& name) {
  auto pre = find_pre_tokeniser(name);
  if (!pre) throw ValueError(fmt::format("[train tokenizer] no pre-tokeniser is called {}", name));
  return *pre;
}

std::vector<PreTokeniserStep> steps_of(const KnownPreTokeniser& pre) {
  std::vector<PreTokeniserStep> steps;
  for (const auto& pattern : pre.patterns) steps.emplace_back(SplitStep{.what = pattern});
  return steps;
}

using Pair = std::uint64_t;  // two ids: left, right
Pair pair_of(TokenId left, TokenId right) {
  return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
}
TokenId left_of(Pair pair) { return static_cast<TokenId>(pair >> 32); }
TokenId right_of(Pair pair) { return static_cast<TokenId>(pair & 0xffffffffu); }

struct Piece {
  std::vector<TokenId> symbols;
  std::int64_t count;
};

struct PairUse {
  std::int64_t count = 0;
  std::vector<std::uint32_t> pieces;  // that had it when it arose; ascending, each once
};

struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// Counts of all pairs, kept up to date while pieces are merged. A candidate in the queue may have lost
// occurrences since it got there: it goes back with what it has now. None gains any after the merge that made
// it.
class PairTable {
 public:
  explicit PairTable(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      const auto& symbols = pieces_[i].symbols;
      for (std::size_t j = 0; j + 1 < symbols.size(); ++j) change(pair_of(symbols[j], symbols[j + 1]), i, 1);
    }
    queue_changed();
  }

  // The most frequent pair, taken out; a count of 0 when there is none left.
  Candidate take_best() {
    while (!queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = uses_[best.pair].count;
      if (count == best.count) return best;
      if (count > 0) queue_.push({count, best.pair});
    }
    return {0, 0};
  }

  void merge(Pair pair, TokenId merged) {
    const PairUse use = std::move(uses_[pair]);
    uses_.erase(pair);
    for (const std::uint32_t index : use.pieces) merge_in(index, pair, merged);
    uses_.erase(pair);  // occurrences that overlapped others
    queue_changed();
  }

 private:
  void change(Pair pair, std::uint32_t index, std::int64_t times) {
    PairUse& use = uses_[pair];
    use.count += times * pieces_[index].count;
    if (times < 0) return;
    if (use.pieces.empty() || use.pieces.back() != index) use.pieces.push_back(index);
    changed_.push_back(pair);
  }

  void merge_in(std::uint32_t index, Pair pair, TokenId merged) {
    auto& symbols = pieces_[index].symbols;
    const TokenId left = left_of(pair), right = right_of(pair);
    std::size_t out = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (i + 1 >= symbols.size() || symbols[i] != left || symbols[i + 1] != right) {
        symbols[out++] = symbols[i];
        continue;
      }
      if (out > 0) {
        change(pair_of(symbols[out - 1], left), index, -1);
        change(pair_of(symbols[out - 1], merged), index, 1);
      }
      ++i;
      if (i + 1 < symbols.size()) {
        change(pair_of(right, symbols[i + 1]), index, -1);
        change(pair_of(merged, symbols[i + 1]), index, 1);
      }
      symbols[out++] = merged;
    }
    symbols.resize(out);
  }

  void queue_changed() {
    std::ranges::sort(changed_);
    changed_.erase(std::ranges::unique(changed_).begin(), changed_.end());
    for (const Pair pair : changed_)
      if (const auto count = uses_[pair].count; count > 0) queue_.push({count, pair});
    changed_.clear();
  }

  std::vector<Piece> pieces_;
  std::unordered_map<Pair, PairUse> uses_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> changed_;  // that gained occurrences
};

// The order of ids is that of the characters which stand for bytes.
std::array<TokenId, 256> add_bytes(Definition& definition) {
  std::vector<std::pair<std::string, int>> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    bytes.emplace_back(to_byte_characters({&text, 1}), byte);
  }
  std::ranges::sort(bytes, {}, [](const auto& entry) { return read_valid_utf8(entry.first, 0); });
  std::array<TokenId, 256> ids{};
  for (const auto& [text, byte] : bytes) {
    ids[static_cast<std::size_t>(byte)] = static_cast<TokenId>(definition.tokens.size());
    definition.tokens.push_back({.text = text});
  }
  return ids;
}

// In order of their text, so that nothing depends on how they were counted.
std::vector<Piece> symbols_of(const PieceCounts& counts, const std::array<TokenId, 256>& byte_ids) {
  std::vector<std::pair<std::string_view, std::int64_t>> sorted(counts.counts().begin(),
                                                                counts.counts().end());
  std::ranges::sort(sorted);
  std::vector<Piece> pieces;
  pieces.reserve(sorted.size());
  for (const auto& [text, count] : sorted) {
    Piece piece{{}, count};
    for (const char c : text) piece.symbols.push_back(byte_ids[static_cast<unsigned char>(c)]);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

std::vector<std::string_view> cut_into_parts(std::string_view text) {
  constexpr std::size_t size = std::size_t{1} << 20;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::vector<std::string_view> parts;
  while (text.size() > size) {
    std::size_t end = size;
    while (end < text.size() && !(text[end - 1] == '\n' && is_letter(text[end]))) ++end;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

PieceCounts::PieceCounts(std::string pre) : pre_(std::move(pre)) { known(pre_); }

void PieceCounts::add(const std::vector<std::string_view>& texts,
                      const std::function<void(std::size_t)>& progress) {
  const PreTokeniser pre_tokeniser(steps_of(known(pre_)), "trained");
  std::vector<std::string_view> parts;
  for (const auto text : texts) {
    if (!is_utf8(text)) throw ValueError("[train tokenizer] a text is not UTF-8");
    const auto cut = cut_into_parts(text);
    parts.insert(parts.end(), cut.begin(), cut.end());
  }
  std::mutex mutex;
  parallel_for(static_cast<std::int64_t>(parts.size()), 8, [&](std::int64_t begin, std::int64_t end) {
    std::unordered_map<std::string_view, std::int64_t> found;
    Pieces pieces;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      pieces.begin(parts[i]);
      pre_tokeniser.cut(pieces, true);
      for (std::size_t j = 0; j < pieces.spans.size(); ++j) ++found[pieces[j]];
      if (progress) progress(parts[i].size());
    }
    const std::lock_guard lock(mutex);
    for (const auto& [piece, count] : found) counts_[std::string(piece)] += count;
  });
}

Definition train_bpe(const PieceCounts& counts, const BpeTrainingOptions& options) {
  const std::size_t fixed = options.special.size() + 256;
  if (options.vocabulary < fixed)
    throw ValueError(
        fmt::format("[train tokenizer] a vocabulary of {} has no room for 256 bytes and {} special tokens",
                    options.vocabulary, options.special.size()));
  const KnownPreTokeniser pre = known(counts.pre());
  Definition definition;
  definition.source = "trained";
  for (const auto& text : options.special)
    definition.tokens.push_back({.text = text, .kind = TokenKind::control});
  const auto byte_ids = add_bytes(definition);
  std::unordered_map<std::string, TokenId> ids;
  for (std::size_t i = 0; i < definition.tokens.size(); ++i)
    ids.emplace(definition.tokens[i].text, static_cast<TokenId>(i));

  PairTable table(symbols_of(counts, byte_ids));
  std::vector<Merge> merges;
  while (definition.tokens.size() < options.vocabulary) {
    const Candidate best = table.take_best();
    if (best.count < std::max<std::int64_t>(options.least_count, 1))
      throw ValueError(fmt::format(
          "[train tokenizer] the text gives {} tokens, of which {} are bytes and special tokens; a "
          "vocabulary of {} needs more text",
          definition.tokens.size(), fixed, options.vocabulary));
    const TokenId left = left_of(best.pair), right = right_of(best.pair);
    const std::string text = definition.tokens[static_cast<std::size_t>(left)].text +
                             definition.tokens[static_cast<std::size_t>(right)].text;
    // Two pairs can make the same text; it is one token.
    const auto [entry, added] = ids.emplace(text, static_cast<TokenId>(definition.tokens.size()));
    if (added) definition.tokens.push_back({.text = text});
    merges.push_back({left, right, entry->second});
    table.merge(best.pair, entry->second);
  }

  definition.pre_tokeniser = steps_of(pre);
  definition.model =
      BpeModel{{.symbols = BpeSymbols::bytes_as_characters, .whole_pieces_first = pre.whole_pieces_first},
               std::move(merges)};
  definition.decoder = {DecodeBytesStep{}};
  if (!options.special.empty()) {
    definition.special.bos = definition.special.eos = 0;
    definition.prefix = {0};
  }
  return definition;
}

}  // namespace hearth::tokenizer
