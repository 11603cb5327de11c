// Texts, cut into documents.
#include "lm/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "base/trimmed.h"
#include "hearth/error.h"
#include "io/host_tensor.h"
#include "io/tokenizer/utf8.h"

namespace hearth::lm {
namespace {

std::vector<std::string_view> cut_into_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  const auto add = [&](std::string_view document) {
    document = trimmed(document);
    if (!document.empty()) documents.push_back(document);
  };
  for (std::size_t end; (end = text.find(end_of_text)) != text.npos;) {
    add(text.substr(0, end));
    text.remove_prefix(end + end_of_text.size());
  }
  add(text);
  return documents;
}

// Of the words alone, so that the same text with other line ends is the same.
Hash128 hash_document(std::string_view text) {
  std::string words;
  words.reserve(text.size());
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') words += c;
  return hash_bytes(words);
}

void check_text(std::string_view text, const std::filesystem::path& path) {
  const auto refuse = [&](const char* what) {
    throw ValueError(fmt::format("[corpus] '{}' {}", path.string(), what));
  };
  if (trimmed(text).empty()) refuse("has no text in it");
  if (text.find('\0') != text.npos) refuse("is no text: it has zero bytes in it");
  if (!tokenizer::is_utf8(text)) refuse("is not UTF-8; convert it first, e.g. with iconv");
}

using HashSet = std::unordered_set<Hash128, Hash128Hasher>;

// The end of the only document, from the beginning of a line on.
void hold_out_end(SourceText& source, double share) {
  const std::string_view text = source.training.front();
  const auto from = text.size() - static_cast<std::size_t>(share * static_cast<double>(text.size()));
  const auto line = text.find('\n', from);
  if (line == text.npos || trimmed(text.substr(line)).empty()) return;
  source.training = {text.substr(0, line)};
  source.validation = {trimmed(text.substr(line))};
}

// Documents in the order of their hashes, until there are enough.
void hold_out_documents(SourceText& source, double share, HashSet& held_out) {
  struct Entry {
    Hash128 hash;
    std::size_t index;
  };
  std::vector<Entry> order;
  std::size_t total = 0, taken = 0;
  for (std::size_t i = 0; i < source.training.size(); ++i) {
    order.push_back({hash_document(source.training[i]), i});
    total += source.training[i].size();
  }
  std::ranges::sort(order, [](const Entry& a, const Entry& b) {
    return std::tie(a.hash.high, a.hash.low, a.index) < std::tie(b.hash.high, b.hash.low, b.index);
  });
  order.pop_back();  // one is left to train on, however large the others are
  for (const auto& [hash, index] : order) {
    if (static_cast<double>(taken) >= share * static_cast<double>(total)) break;
    taken += source.training[index].size();
    source.validation.push_back(source.training[index]);
    held_out.insert(hash);
  }
}

}  // namespace

Hash128 hash_bytes(std::string_view bytes) {
  Hasher hasher;
  hasher.add(std::uint64_t(bytes.size()));
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(8, bytes.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<std::size_t>(8, bytes.size()));
    hasher.add(word);
  }
  return hasher.finish();
}

std::string to_string(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

TextSource parse_text_source(const std::string& text) {
  TextSource source{text, 1};
  const auto colon = text.rfind(':');
  if (colon != text.npos && colon + 1 < text.size()) {
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    double weight = 0;
    const auto [stop, error] = std::from_chars(begin, end, weight);
    if (error == std::errc() && stop == end) {
      if (!(weight > 0) || !std::isfinite(weight))
        throw ValueError(fmt::format("[corpus] '{}': the weight after the colon must be positive", text));
      source = {text.substr(0, colon), weight};
    }
  }
  if (source.path.empty()) throw ValueError(fmt::format("[corpus] '{}' names no file", text));
  return source;
}

Corpus::Corpus(const std::vector<TextSource>& sources, double held_out) {
  if (sources.empty()) throw ValueError("[corpus] no text to train on");
  if (!(held_out >= 0 && held_out <= 0.5))
    throw ValueError(fmt::format("[corpus] {} of the text cannot be held out; at most half", held_out));
  HashSet hashes;
  for (const TextSource& source : sources) {
    const auto file = io::read_maybe_compressed(source.path);
    const std::string_view text = io::as_text(file.bytes);
    check_text(text, source.path);
    contents_.push_back(file.owner);
    SourceText documents{source, cut_into_documents(text), {}};
    if (documents.training.empty())
      throw ValueError(fmt::format("[corpus] '{}' has no text in it", source.path.string()));
    if (held_out > 0 && documents.training.size() == 1) hold_out_end(documents, held_out);
    if (held_out > 0 && documents.training.size() > 1) hold_out_documents(documents, held_out, hashes);
    sources_.push_back(std::move(documents));
  }
  if (hashes.empty()) return;
  for (SourceText& source : sources_) {
    std::erase_if(source.training,
                  [&](std::string_view document) { return hashes.contains(hash_document(document)); });
    if (source.training.empty())
      throw ValueError(fmt::format("[corpus] all of '{}' is held out", source.source.path.string()));
  }
}

std::size_t Corpus::training_bytes() const {
  std::size_t bytes = 0;
  for (const auto& source : sources_)
    for (const auto document : source.training) bytes += document.size();
  return bytes;
}

}  // namespace hearth::lm
