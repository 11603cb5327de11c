// How much the columns of each weight matter: the squares of what they are multiplied with, added up over a
// text. The files are GGUF files, as llama.cpp reads and writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hearth/llm.h"

namespace hearth::llm {

struct Importance {
  struct Sums {
    std::vector<float> squares;  // of each column
    double count = 0;            // of rows that were added
  };
  std::map<std::string, Sums, std::less<>> weights;  // by name: "blk.0.attn_q.weight"
  std::vector<std::string> texts;                    // what it was measured with
  std::int64_t chunks = 0, chunk_tokens = 0;

  // The mean square of each column, for quantise(); empty for a weight that was not measured. Throws
  // FormatError if it was measured with another number of columns.
  std::vector<float> of(const std::string& weight, std::int64_t columns) const;
};

// Runs the tokens through the model, `chunk` at a time. `progress` gets how many are done, and ends it early
// by returning false. Sessions of the model may not run meanwhile.
Importance measure_importance(const Model& model, std::span<const TokenId> tokens, std::int64_t chunk,
                              const std::function<bool(std::int64_t)>& progress = {});

void save_importance(const std::filesystem::path& path, const Importance& importance);
// Throws FileError, or FormatError for a file that is something else.
Importance load_importance(const std::filesystem::path& path);

}  // namespace hearth::llm
