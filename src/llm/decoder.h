// The decoder: tokens of any sequences in, scores of the next tokens out.
#pragma once

#include <vector>

#include "hearth/llm.h"
#include "llm/weights.h"

namespace hearth::llm {

// Keys and values of all layers, (slots, groups, features) each.
struct KeyValueCache {
  std::vector<Tensor> keys, values;
  std::vector<Tensor> key_scales, value_scales;  // where they are kept in 8 bits (tensor/key_value_cache.h)
  std::int64_t page = 0;
};

// Which tokens, where. All i64.
struct DecoderInput {
  Tensor tokens;     // (n,)
  Tensor sequences;  // (n,) row of the table
  Tensor positions;  // (n,) in their sequences
  Tensor slots;      // (n,) of the cache, where their keys and values go
  Tensor table;      // (sequences, pages)
  Tensor wanted;     // (m,) tokens whose successors are to be scored; undefined: all
  Tensor history;    // where defined: slots of all that the one sequence has, these tokens being the last

  // From the first four as one, (4, n), then table and wanted, and history where there is one.
  explicit DecoderInput(const std::vector<Tensor>& in);
  DecoderInput() = default;
};

// What goes through the layers: (n, width), f32.
Tensor embed(const ModelConfig& config, const Weights& weights, const DecoderInput& input);
// What comes out of layers [first, end). Keys and values of all tokens are put into the cache first.
Tensor through_layers(const ModelConfig& config, const Weights& weights, KeyValueCache& cache,
                      const DecoderInput& input, Tensor x, std::int64_t first, std::int64_t end);
// What the last norm gives of the tokens that are wanted, (m, width), f32.
Tensor features(const ModelConfig& config, const Weights& weights, const DecoderInput& input,
                const Tensor& x);
// The scores of what follows them, (m, vocabulary), f32.
Tensor scores(const ModelConfig& config, const Weights& weights, const Tensor& features);

// In layers [first, end), moves keys and values from slots to others, (n,) i64, of tokens whose positions
// change by so many.
void move_tokens(const ModelConfig& config, const Weights& weights, KeyValueCache& cache, std::int64_t first,
                 std::int64_t end, const Tensor& from, const Tensor& to, std::int64_t by);

}  // namespace hearth::llm
