// tokenizer.json, parsed: its vocabulary and merges as lists, which are most of the file, and the rest as a
// tree.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::tokenizer {

struct JsonDocument {
  nlohmann::json tree;                                      // without model.vocab and model.merges
  std::vector<std::pair<std::string, std::int64_t>> ids;    // model.vocab as an object
  std::vector<std::pair<std::string, double>> scores;       // model.vocab as a list of pairs
  std::vector<std::pair<std::string, std::string>> merges;  // both of its forms
};

// Throws FormatError for what is not JSON in UTF-8, and for other values where the vocabulary and the merges
// are.
JsonDocument parse_tokenizer_json(std::string_view text, std::string_view source);
// The same for a file that is only the object model.vocab.
JsonDocument parse_vocab_json(std::string_view text, std::string_view source);
// A small file. Throws FormatError.
nlohmann::json parse_json(std::string_view text, std::string_view source);

}  // namespace hearth::tokenizer
