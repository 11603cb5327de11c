// The pre-tokenisers of known vocabularies, by the names that GGUF files use (tokenizer.ggml.pre).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

struct KnownPreTokeniser {
  std::vector<std::string> patterns;  // each cuts what the one before it left
  bool nfc = false;                   // text is brought to NFC before
  bool whole_pieces_first = false;    // see BpeModel
  bool adds_bos = false;              // unless the file says otherwise
};

// Nothing for an unknown name.
std::optional<KnownPreTokeniser> find_pre_tokeniser(std::string_view name);
// A name of one that cuts the same; nothing if none does.
std::optional<std::string_view> pre_tokeniser_name(const KnownPreTokeniser& pre);

// Patterns that other readers name too.
std::string gpt2_pattern();
std::string cl100k_pattern();
std::string o200k_pattern();

}  // namespace hearth::tokenizer
