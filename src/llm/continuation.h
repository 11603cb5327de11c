// What follows a prompt, token by token, whoever computes the scores.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hearth/llm.h"
#include "llm/grammar/token_mask.h"
#include "llm/model.h"
#include "llm/stop_texts.h"

namespace hearth::llm {

// Throws ValueError for options, or a prompt, that no generation can begin with.
void check_generation(const GenerateOptions& options, std::span<const TokenId> prompt,
                      const Model::State& model);

// How many tokens two texts begin with alike.
std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b);

class Continuation {
 public:
  using Each = std::function<bool(const Generated&)>;

  // `options` and `mask`, of their grammar if they have one, outlive it.
  Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt, const GenerateOptions& options,
               grammar::TokenMask* mask, Each each);

  // Chooses the token that follows by these scores, and gives its text away. Nothing where the text has
  // ended; then result().reason says why.
  std::optional<TokenId> advance(std::span<const float> scores);
  // Tokens of the prompt, and the scores by which each followed; behind the last of these there is no token.
  void score_prompt(std::span<const std::vector<float>> rows, std::span<const TokenId> following);
  // What takes long of advance() with the same scores, to be called before it: several texts at once may, on
  // threads of their own. What fails here fails again in advance().
  void prepare(std::span<const float> scores) noexcept;
  // The one who chooses the next token, where it needs nothing but the scores; null where there is more to
  // it, or nothing to choose. What it chose goes to chose(), and advance() needs no scores then.
  Sampler* chooser();
  void chose(TokenId token) { prepared_ = token; }
  // Whether that is the one with the best score, each time.
  bool takes_best() const;
  // Whether there are all tokens that were asked for: advance() needs no scores then.
  bool has_all() const;
  // Gives away what was held back, unless the text was stopped. To be called once, at the end.
  void finish();

  const Sampler& sampler() const { return sampler_; }
  GenerateResult& result() { return result_; }

 private:
  // That of the grammar, where it holds for what comes next.
  grammar::TokenMask* holding() const { return is_free_ ? nullptr : mask_; }
  void look_for_mark(std::string_view piece);
  TokenId choose(std::span<const float> scores);
  bool give(const Generated& next);
  std::optional<TokenId> end(FinishReason reason);

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  grammar::TokenMask* mask_;
  bool is_free_;      // of the grammar, until its mark comes
  std::string free_;  // the end of the text so far, while it is
  Each each_;
  Sampler sampler_;
  StreamDecoder decoder_;
  StopTexts stops_;
  GenerateResult result_;
  std::optional<TokenId> prepared_;
};

}  // namespace hearth::llm
