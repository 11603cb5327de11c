// What a loaded model holds, and how sequences of tokens run through it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
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
  // Given by StepsAhead, each time another one; 0 where anything else has changed the sequence since.
  std::uint64_t version = 0;
};

enum class Output { scores, features };

class StepsAhead;

// Layers that run on one device, after those of the stage before. The first stage has the embedding, too, the
// last one the output.
struct Stage {
  Placement place;
  // Arguments as in DecoderInput, and after the first stage what the one before has made of the tokens.
  Compiled::Function step{};                       // not of the last
  std::vector<Tensor> inputs{};                    // of the last time
  std::vector<std::vector<std::int64_t>> given{};  // what they hold
  Tensor handed{};                                 // what the stage before made, on this device
};

// Tokens to be appended to a sequence, of the last `wanted` of which the output is asked for.
struct Piece {
  Sequence* sequence;
  std::span<const TokenId> tokens;
  std::int64_t wanted;
};

struct Model::State {
  State();
  ~State();

  ModelConfig config;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;
  Device device;  // of the last stage
  std::vector<Stage> stages;
  Weights weights;
  KeyValueCache cache;
  // Added to scores: -infinity for ids that the tokenizer has no token for. Undefined where there are none.
  Tensor no_tokens;
  std::int64_t context = 0;
  std::mutex mutex;  // of the next two: sessions begin and end while another one runs
  std::vector<std::int64_t> free_pages;
  std::int64_t sequences = 0;
  std::int64_t most_sequences = 1;
  std::size_t weight_bytes = 0, cache_bytes = 0;
  std::int64_t parameters = 0;
  // The last stage. Arguments as of the others; it gives scores, and the best of blocks of them where they
  // are to stay.
  Compiled::Function step;
  Compiled::Function feature_step;  // gives features instead
  Compiled::Function pick;          // as pick_blocks() makes it
  std::shared_ptr<float> scores;    // of the last step of several sequences
  std::size_t most_scores = 0;      // for which there is room
  std::size_t kept_from =
      std::numeric_limits<std::size_t>::max();  // so many bytes of scores stay on the device

  // Appends tokens to a sequence; of the last `wanted` of them the scores of their successors, or their
  // features, one row each.
  std::vector<float> append(Sequence& sequence, std::span<const TokenId> tokens, std::int64_t wanted,
                            Output output = Output::scores);
  // The scores after several sequences' pieces, in one step if they are not too long for that; rows in their
  // order. samplers, goes_on: as of Session::feed_together().
  ScoreRows append_together(std::span<const Piece> pieces, std::span<const Sampler* const> samplers = {},
                            bool goes_on = true);
  // Of those scores the best one's token, for each piece; nothing where none can be chosen. goes_on: as
  // Session::feed_for_best().
  std::vector<std::optional<TokenId>> append_for_best(std::span<const Piece> pieces, bool goes_on);
  // Null before there has been one.
  const StepsAhead* steps_ahead() const { return steps_ahead_.get(); }
  void truncate(Sequence& sequence, std::int64_t count);
  std::int64_t shift(Sequence& sequence, std::int64_t keep);  // as Session::shift
  const Tokenizer& tokenizer_or_throw() const;
  std::int64_t chunk_size() const;  // tokens that one run of the decoder takes at most
  Tensor scores_after(const Tensor& features) const;
  // For steps on one device.
  Tensor scores_of(const DecoderInput& input);
  // Of the cache: pages of a sequence at most, pages for so many tokens of one, where a token goes, and
  // whether it is the first of its page.
  std::int64_t pages() const;
  void give_pages(Sequence& sequence, std::int64_t tokens);
  static std::int64_t slot_of(const Sequence& sequence, std::int64_t position);
  static bool begins_page(std::int64_t position);
  // Throws ValueError for one that is not in the vocabulary.
  void check(std::span<const TokenId> tokens) const;

 private:
  void check(const Piece& piece) const;
  // Sequences whose tokens `append` appends are as they were where it throws.
  void all_or_nothing(std::span<const Piece> pieces, const std::function<void()>& append);
  bool attends_together(Device on, std::int64_t tokens) const;
  struct Indices {
    std::vector<std::int64_t> values;
    Shape shape;
  };
  std::unique_ptr<StepsAhead> steps_ahead_;  // made when it is first used
  // For pieces that it can append; null where there is no such thing.
  StepsAhead* steps_ahead_for(std::span<const Piece> pieces);
  // What a stage computes from.
  std::vector<Tensor> arguments(Stage& stage, const std::vector<Indices>& given, const Tensor& handed);
  std::int64_t width_of(Output output) const;
  void append_into(std::span<float> rows, Sequence& sequence, std::span<const TokenId> tokens,
                   std::int64_t wanted, Output output);
  // One run of the decoder. `take` gets what is wanted, where anything is, as `step` gives it.
  void run(std::span<const Piece> pieces, Output output,
           const std::function<void(const std::vector<Tensor>&)>& take);
};

Model make_model(const ModelFile& file, const LoadOptions& options);
// What the options come to for a model: tokens of a sequence, and bytes of the cache for all of them.
std::int64_t context_of(const ModelConfig& config, const LoadOptions& options);
std::size_t cache_bytes_of(const ModelConfig& config, const LoadOptions& options);

}  // namespace hearth::llm
