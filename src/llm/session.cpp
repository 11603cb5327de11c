// Sessions: one sequence, its scores, and text from them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "hearth/error.h"
#include "llm/log_probabilities.h"
#include "llm/model.h"
#include "llm/stop_texts.h"

namespace hearth::llm {
namespace {

std::vector<std::vector<float>> rows_of(const std::vector<float>& flat, std::int64_t vocabulary) {
  std::vector<std::vector<float>> rows;
  for (auto at = flat.begin(); at != flat.end(); at += vocabulary) rows.emplace_back(at, at + vocabulary);
  return rows;
}

}  // namespace

struct Session::State {
  std::shared_ptr<Model::State> model;
  Sequence sequence;

  explicit State(std::shared_ptr<Model::State> of) : model(std::move(of)) {
    if (model->sequences == model->most_sequences)
      throw ValueError("[Session] all sequences of the model's cache are in use");
    ++model->sequences;
  }
  ~State() {
    model->truncate(sequence, 0);
    --model->sequences;
  }
};

Session::Session(const Model& model) : state_(std::make_unique<State>(model.state())) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<float> Session::feed(std::span<const TokenId> tokens) {
  if (tokens.empty()) throw ValueError("[Session] feed() needs at least one token");
  return state_->model->append(state_->sequence, tokens, 1);
}

std::vector<std::vector<float>> Session::feed_all(std::span<const TokenId> tokens) {
  return rows_of(state_->model->append(state_->sequence, tokens, static_cast<std::int64_t>(tokens.size())),
                 state_->model->config.vocabulary);
}

std::vector<std::vector<float>> Session::feed_together(std::span<Session* const> sessions,
                                                       std::span<const std::vector<TokenId>> tokens) {
  if (sessions.size() != tokens.size())
    throw ValueError(fmt::format("[Session] {} sessions with tokens for {}", sessions.size(), tokens.size()));
  if (sessions.empty()) return {};
  const std::shared_ptr<Model::State>& model = sessions[0]->state_->model;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    State& state = *sessions[i]->state_;
    if (state.model != model) throw ValueError("[Session] feed_together() needs sessions of one model");
    for (const Piece& other : pieces)
      if (other.sequence == &state.sequence)
        throw ValueError("[Session] feed_together() has a session twice");
    if (tokens[i].empty()) throw ValueError("[Session] feed_together() needs at least one token for each");
    pieces.push_back({&state.sequence, tokens[i], 1});
  }
  return rows_of(model->append_together(pieces), model->config.vocabulary);
}

const std::vector<TokenId>& Session::tokens() const { return state_->sequence.tokens; }
void Session::truncate(std::int64_t count) { state_->model->truncate(state_->sequence, count); }

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::end:
      return "end";
    case FinishReason::length:
      return "length";
    case FinishReason::stop:
      return "stop";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const std::function<bool(TokenId, std::string_view)>& each) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  if (prompt.empty()) throw ValueError("[Session] generate() needs at least one token");
  const Tokenizer& tokenizer = state_->model->tokenizer_or_throw();
  GenerateResult result;
  result.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  Sampler sampler(options.sampling);
  sampler.saw(prompt);

  // Of what the cache has, keep what the prompt begins with; the last token of the prompt is always run.
  const std::vector<TokenId>& seen = state_->sequence.tokens;
  const auto most = std::min(seen.size(), prompt.size() - 1);
  const auto same = static_cast<std::size_t>(
      std::mismatch(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin()).first -
      seen.begin());
  truncate(static_cast<std::int64_t>(same));
  result.reused_tokens = static_cast<std::int64_t>(same);

  auto start = Clock::now();
  std::vector<float> scores = feed(prompt.subspan(same));
  result.prompt_seconds = seconds_since(start);
  start = Clock::now();
  StreamDecoder decoder(tokenizer, {.skip_special = true});
  decoder.push(prompt.back());  // what follows is not the beginning of a text: it keeps its space
  StopTexts stops(options.stop);
  const auto give = [&](TokenId token, const std::string& text) {
    result.text += text;
    return !each || each(token, text);
  };
  for (;;) {
    if (options.most_tokens >= 0 && static_cast<std::int64_t>(result.tokens.size()) >= options.most_tokens) {
      result.reason = FinishReason::length;
      break;
    }
    const TokenId token = sampler.choose(scores);
    if (tokenizer.ends_generation(token) && !options.ignore_end) {
      result.reason = FinishReason::end;
      break;
    }
    result.tokens.push_back(token);
    if (options.best_log_probabilities >= 0)
      result.log_probabilities.push_back(
          log_probabilities(scores, token, static_cast<std::size_t>(options.best_log_probabilities)));
    const std::string text = stops.push(decoder.push(token));
    if (!give(token, text)) {
      result.reason = FinishReason::cancelled;
      break;
    }
    if (stops.found()) {
      result.reason = FinishReason::stop;
      break;
    }
    if (static_cast<std::int64_t>(seen.size()) == state_->model->context) {
      result.reason = FinishReason::context;
      break;
    }
    scores = feed({&token, 1});
  }
  if (result.reason != FinishReason::cancelled && !stops.found()) {
    const std::string rest = stops.push(decoder.finish()) + stops.finish();
    if (!rest.empty()) give(result.tokens.empty() ? TokenId{-1} : result.tokens.back(), rest);
  }
  result.generate_seconds = seconds_since(start);
  return result;
}

}  // namespace hearth::llm
