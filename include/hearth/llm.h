// Language models: a GGUF file or a Hugging Face folder in, text out.
//
//   const auto model = llm::Model::load("model.gguf");
//   llm::Session session(model);
//   session.generate(model.tokenizer().encode("Once upon a time"), {.most_tokens = 100},
//                    [](const llm::Generated& next) { std::cout << next.text << std::flush; return true; });
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/device.h"
#include "hearth/grammar.h"
#include "hearth/tokenizer.h"

namespace hearth::llm {

// YaRN: pairs that turn fast stay, slow ones are divided by the factor, those between get some of both, by
// the number of the pair between those that turn `fast` and `slow` times in the original context.
struct YarnScaling {
  double factor, original_context, fast = 32, slow = 1;
  bool rounds = true;  // the first and the last pair that are stretched in part: to whole pairs
};

// Rotary positions: how far the pairs of features of a head turn.
struct RopeConfig {
  std::vector<double> frequencies{};       // radians per position, of each pair; features beyond them stay
  std::vector<double> long_frequencies{};  // instead, where a sequence may be longer than short_context
  std::int64_t short_context = 0;
  double scale = 1;  // of the features that were turned
  // Where the frequencies come from: base ^ (-2 i / size), stretched where there is something else to say.
  double base = 10000;
  std::optional<YarnScaling> yarn{};
};

// What becomes of a gate and what it is for: silu(gate) * up, gelu(gate) * up, or as GPT-OSS has it
// gate * sigmoid(1.702 gate) * (up + 1), both within 7.
enum class Activation { silu, gelu_tanh, clamped };

// What the decoder is built from. Read from the file; the same for every format.
struct ModelConfig {
  std::string architecture;  // "llama", "qwen2", ...
  std::string name;
  std::int64_t vocabulary = 0, context = 0, layers = 0, width = 0, heads = 0, groups = 0;
  std::int64_t head_size = 0, feed_forward = 0;
  double norm_epsilon = 1e-5;
  double embedding_scale = 1, attention_scale = 1;     // attention_scale: of the products of queries and keys
  double residual_scale = 1, output_scale = 1;         // of what a layer adds to its input twice; of scores
  double attention_soft_cap = 0, output_soft_cap = 0;  // scores become cap * tanh(score / cap); 0: none
  Activation activation = Activation::silu;
  bool query_key_norms = false;       // of each head, before rope
  bool norms_join_heads = false;      // or of all heads together
  bool pre_norms = true;              // attention and feed-forward begin with a norm
  bool post_norms = false;            // and they end with one
  bool attention_sinks = false;       // each head may look at nothing, which has a score, too
  std::vector<std::int64_t> windows;  // of the attention of each layer; 0: all tokens so far
  std::vector<bool> without_rope;     // of each layer: it does not see positions; empty: all see them
  RopeConfig rope;
  RopeConfig local_rope;          // of layers with a window; no frequencies: they have the same
  bool rope_interleaved = false;  // pairs (2 i, 2 i + 1) instead of (i, i + half)
  // Layers may have experts instead of one feed-forward, and an expert for all tokens beside them.
  std::int64_t experts = 0, experts_used = 0, expert_feed_forward = 0, shared_feed_forward = 0;
  bool normalise_experts = false;  // the weights of the experts that are used sum to 1
};

struct LoadOptions {
  Device device = default_device();
  // So many of the last layers are on the device; the others, and what they have in the cache, are on the
  // CPU, which computes them first. -1, or as many as there are or more: all are on the device.
  std::int64_t gpu_layers = -1;
  std::int64_t context = 0;                   // tokens of a sequence; 0: as the model, at most 4096
  DType cache_dtype = DType::f16;             // of keys and values: f32, f16, bf16, q8_0
  std::int64_t sequences = 1;                 // that have room in the cache, each of `context` tokens
  std::function<void(double)> progress = {};  // called with the part loaded
  // On a CPU, copies weights in q4_0, q8_0, q4_k and q6_k into the order in which it generates fastest, where
  // it has instructions for that and the model fits the memory; others are used where the file is mapped.
  bool repack = true;
};

// A model in memory. Cheap to copy. Sessions of one model may not run at the same time, but begin and end
// while another one runs.
class Model {
 public:
  // Throws FileError; FormatError for a file that is not a model or breaks its format; Error naming an
  // architecture that is not known, with those that are; OutOfMemory.
  static Model load(const std::filesystem::path& path, const LoadOptions& options = {});

  const ModelConfig& config() const;
  const Tokenizer& tokenizer() const;  // throws ValueError when the model came without one
  Device device() const;               // of the last layers and the output
  std::int64_t device_layers() const;  // that are there; the others are on the CPU
  std::int64_t context() const;        // of a sequence
  std::size_t weight_bytes() const;    // as they are kept
  std::size_t cache_bytes() const;
  const std::string& chat_template() const;  // as the file has it (hearth/chat_template.h); empty: none
  std::int64_t parameters() const;

  // For the library itself.
  struct State;
  explicit Model(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// How the next token is chosen. Steps are taken in the order of the members; each that is off costs nothing.
struct SamplingOptions {
  double repetition_penalty = 1;  // divides (multiplies negative) scores of tokens among the last ones
  double frequency_penalty = 0, presence_penalty = 0;  // subtracted: times the count, once
  std::int64_t penalty_window = 64;                    // how many of the last tokens count
  std::map<TokenId, double> bias = {};                 // added to scores; -infinity: never
  double temperature = 0.8;                            // 0: the best token, always
  std::int64_t top_k = 40;                             // 0: off
  double typical_p = 1, top_p = 0.95, min_p = 0.05;
  // 1 or 2, that version of mirostat in place of top_k to min_p: after each token the choice is widened or
  // narrowed at this rate, so that the mean surprise of the tokens comes to the target, in bits.
  int mirostat = 0;
  double mirostat_target = 5, mirostat_rate = 0.1;
  std::uint64_t seed = 0;  // 0: a new one each time
};

struct TokenProbability {
  TokenId token;
  double probability;
};

class ScoreRows;

// Chooses tokens. Remembers what it chose, and its random numbers. Scores that are NaN or -infinity are of
// tokens that cannot be chosen; ValueError is thrown where there is no other.
//
// A token is chosen by random numbers of its own: those of two samplers with the same seed and history are
// the same, and where their scores are nearly so, too, they choose the same token.
class Sampler {
 public:
  // Throws ValueError naming an option that is out of range.
  explicit Sampler(const SamplingOptions& options);
  TokenId choose(std::span<const float> scores);
  // What choose() would choose among, the most likely first.
  std::vector<TokenProbability> distribution(std::span<const float> scores) const;
  // Tokens that penalties should see without having been chosen: those of the prompt.
  void saw(std::span<const TokenId> tokens);
  std::uint64_t seed() const;  // the one in use
  bool takes_best() const;     // whether it always chooses the best of the scores as they are

  // For the library itself.
  class Blocks;
  struct Foresight;
  Foresight foresight() const;  // of what it chooses next

 private:
  friend std::vector<std::optional<TokenId>> choose_together(std::span<Sampler* const>, const ScoreRows&);
  bool changes_scores() const;  // by penalties or bias
  TokenId choose(const Blocks& blocks);

  SamplingOptions options_;
  std::vector<TokenId> seen_;  // the last ones
  double most_surprise_;       // of mirostat, in bits
  std::array<std::uint64_t, 4> random_;
};

struct TokenLogProbability {
  TokenId token;
  double log_probability;  // natural; by the model's scores as they are, before sampling changes them
};
struct LogProbabilities {
  TokenLogProbability chosen;
  // The most likely first, of those that can be chosen at all; they need not include the chosen one.
  std::vector<TokenLogProbability> best;
};

// A token that was just chosen, as callbacks get it.
struct Generated {
  TokenId token;
  std::string_view text;  // what it completes: none, a character, what was held back for a stop text
  const LogProbabilities* log_probabilities =
      nullptr;  // where they were asked for and the token is a new one
};

struct GenerateOptions {
  std::int64_t most_tokens = -1;  // -1: until the model ends or the context is full
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};        // the text ends before one of these
  bool ignore_end = false;                   // go on where the model would end
  bool special_text = false;                 // tokens that mean something else are part of the text, too
  std::int64_t best_log_probabilities = -1;  // of each token, of so many of the best ones, too; -1: none
  bool score_prompt = false;                 // the same of the prompt's tokens, all of which are computed
  std::optional<Grammar> grammar = {};       // what the text must look like
  std::string grammar_after = {};            // only what follows this, the end of thoughts, say; empty: all
  // When the context is full: -1, stop; else keep that many tokens of the beginning, drop the older half of
  // the others, and go on.
  std::int64_t keep = -1;
  // Tokens are guessed, and the model checks several in one step. It chooses by its own scores and the same
  // random numbers as without, so that guesses change nothing but the time (and, by the rounding of products
  // of more rows, now and then a token).
  std::optional<Model> draft = {};  // a faster model with the same tokens, which guesses
  std::int64_t lookup = 0;          // guess what followed when the last so many tokens came before; 0: off
  std::int64_t most_drafted = 8;    // tokens guessed at a time
  // Asked before each piece of a long prompt, with the tokens read so far and all of them. False ends it: the
  // result is cancelled, and the session has seen what was read.
  std::function<bool(std::int64_t read, std::int64_t all)> reading = {};
};

enum class FinishReason { end, length, stop, context, cancelled };
std::string_view to_string(FinishReason reason);

struct GenerateResult {
  std::vector<TokenId> tokens;
  std::vector<LogProbabilities> log_probabilities;         // of each token, where they were asked for
  std::vector<LogProbabilities> prompt_log_probabilities;  // of those after the first
  std::string text;
  FinishReason reason = FinishReason::end;
  std::int64_t prompt_tokens = 0, reused_tokens = 0;     // reused: those still in the cache from before
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;  // guesses, and those that were right
  std::int64_t shifts = 0;                               // times that tokens were dropped from a full context
  double prompt_seconds = 0, generate_seconds = 0;
  std::vector<float> embedding = {};  // of Batcher::embed() alone
};

// Scores, a row for each of several sequences. Many of them stay on a GPU until somebody looks at them.
// Copies share their memory.
class ScoreRows {
 public:
  ScoreRows() = default;
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // All scores of a row. Threads may ask at the same time.
  std::span<const float> operator[](std::size_t row) const;

  struct State;  // for the library itself
  explicit ScoreRows(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// Sampler::choose() for each row by its own sampler, of which some may be null. Of scores that are on a GPU,
// only what the samplers look at comes from there. Nothing where there is no sampler, or where choose() would
// throw.
std::vector<std::optional<TokenId>> choose_together(std::span<Sampler* const> samplers,
                                                    const ScoreRows& rows);

struct Piece;

// One sequence of tokens and its keys and values.
class Session {
 public:
  // Throws Error when all sequences of the model's cache are in use.
  explicit Session(const Model& model);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // The scores of the token after these, which follow those seen before; -infinity for ids of the vocabulary
  // that the tokenizer, where there is one, has no token for. Throws ValueError when the context is full, or
  // for a token that is not in the vocabulary.
  std::vector<float> feed(std::span<const TokenId> tokens);
  // The same, of the tokens after each of them: (tokens, vocabulary).
  std::vector<std::vector<float>> feed_all(std::span<const TokenId> tokens);
  // The same tokens as the last layer has them, after its norm, before they become scores: (tokens, width).
  std::vector<std::vector<float>> features(std::span<const TokenId> tokens);
  // feed() of several sessions of one model in one step: tokens[i] go to sessions[i]. Each may be there once.
  // With the samplers that will choose what follows, and where that is probably fed next (goes_on), a GPU may
  // begin with what they will choose before they have: it does not wait for the caller then.
  static ScoreRows feed_together(std::span<Session* const> sessions,
                                 std::span<const std::vector<TokenId>> tokens,
                                 std::span<const Sampler* const> samplers = {}, bool goes_on = true);
  // Of those scores the best one's token, as a Sampler with a temperature of 0 chooses it; nothing where none
  // can be chosen. goes_on: these tokens are probably fed next. A GPU begins with that before they are known
  // here, so that it does not wait for the caller; with others, the step was in vain.
  static std::vector<std::optional<TokenId>> feed_for_best(std::span<Session* const> sessions,
                                                           std::span<const std::vector<TokenId>> tokens,
                                                           bool goes_on = true);
  const std::vector<TokenId>& tokens() const;
  // Forgets all but the first `count` tokens.
  void truncate(std::int64_t count);
  // Forgets the older half of the tokens after the first `keep`, and moves the others to their places; how
  // many there were. What those have seen stays in their keys and values. Throws ValueError where there are
  // not two tokens after the first `keep`.
  std::int64_t shift(std::int64_t keep);

  // Goes on from `prompt`, which is the whole text so far: what the session has seen of it is not computed
  // again. `each` gets every token with the text it completes, and stops the run by returning false.
  GenerateResult generate(std::span<const TokenId> prompt, const GenerateOptions& options = {},
                          const std::function<bool(const Generated&)>& each = {});

  struct State;  // for the library itself

 private:
  static std::vector<Piece> pieces_of(std::span<Session* const> sessions,
                                      std::span<const std::vector<TokenId>> tokens, const char* function);
  std::unique_ptr<State> state_;
};

}  // namespace hearth::llm
