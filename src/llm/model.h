// What a loaded model holds, and how sequences of tokens run through it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hearth/eval.h"
#include "hearth/llm.h"
#include "llm/decoder.h"

namespace hearth::llm {

// A sequence's place in the cache. Its pages are given to it as it grows.
struct Sequence {
  std::vector<TokenId> tokens;
  std::vector<std::int64_t> pages;
};

struct Model::State {
  ModelConfig config;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;
  Device device;
  Weights weights;
  KeyValueCache cache;
  std::int64_t context = 0;
  std::vector<std::int64_t> free_pages;
  std::int64_t sequences = 0, most_sequences = 1;
  std::size_t weight_bytes = 0, cache_bytes = 0;
  std::int64_t parameters = 0;
  std::optional<Compiled> step;

  // Appends tokens to a sequence; the scores of the successors of the last `wanted` of them, one row each.
  std::vector<float> append(Sequence& sequence, std::span<const TokenId> tokens, std::int64_t wanted);
  void truncate(Sequence& sequence, std::int64_t count);
  const Tokenizer& tokenizer_or_throw() const;

 private:
  void run_chunk(Sequence& sequence, std::span<const TokenId> tokens, std::int64_t wanted,
                 std::vector<float>& scores);
};

}  // namespace hearth::llm
