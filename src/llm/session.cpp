// Sessions: one sequence and its scores.
#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"
#include "llm/session.h"

namespace hearth::llm {
namespace {

std::vector<std::vector<float>> rows_of(const std::vector<float>& flat, std::int64_t width) {
  std::vector<std::vector<float>> rows;
  for (auto at = flat.begin(); at != flat.end(); at += width) rows.emplace_back(at, at + width);
  return rows;
}

}  // namespace

Session::State::State(std::shared_ptr<Model::State> of) : model(std::move(of)) {
  const std::lock_guard lock(model->mutex);
  if (model->sequences == model->most_sequences)
    throw ValueError(fmt::format(
        "[Session] {} in use; the option `sequences` of loading says how many there may be",
        model->most_sequences == 1 ? "the only sequence of the model is" : "all sequences of the model are"));
  ++model->sequences;
}

Session::State::~State() {
  model->truncate(sequence, 0);
  const std::lock_guard lock(model->mutex);
  --model->sequences;
}

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

std::vector<std::vector<float>> Session::features(std::span<const TokenId> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  return rows_of(state_->model->append(state_->sequence, tokens, count, Output::features),
                 state_->model->config.width);
}

std::vector<Piece> Session::pieces_of(std::span<Session* const> sessions,
                                      std::span<const std::vector<TokenId>> tokens, const char* function) {
  if (sessions.size() != tokens.size())
    throw ValueError(fmt::format("[Session] {} sessions with tokens for {}", sessions.size(), tokens.size()));
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    State& state = *sessions[i]->state_;
    if (state.model != sessions[0]->state_->model)
      throw ValueError(fmt::format("[Session] {} needs sessions of one model", function));
    for (const Piece& other : pieces)
      if (other.sequence == &state.sequence)
        throw ValueError(fmt::format("[Session] {} has a session twice", function));
    if (tokens[i].empty())
      throw ValueError(fmt::format("[Session] {} needs at least one token for each", function));
    pieces.push_back({&state.sequence, tokens[i], 1});
  }
  return pieces;
}

ScoreRows Session::feed_together(std::span<Session* const> sessions,
                                 std::span<const std::vector<TokenId>> tokens,
                                 std::span<const Sampler* const> samplers, bool goes_on) {
  const std::vector<Piece> pieces = pieces_of(sessions, tokens, "feed_together()");
  if (!samplers.empty() && samplers.size() != sessions.size())
    throw ValueError(fmt::format("[Session] feed_together() of {} sessions with {} samplers", sessions.size(),
                                 samplers.size()));
  if (std::find(samplers.begin(), samplers.end(), nullptr) != samplers.end())
    throw ValueError("[Session] feed_together() needs a sampler for each session, or none");
  if (pieces.empty()) return {};
  return sessions[0]->state_->model->append_together(pieces, samplers, goes_on);
}

std::vector<std::optional<TokenId>> Session::feed_for_best(std::span<Session* const> sessions,
                                                           std::span<const std::vector<TokenId>> tokens,
                                                           bool goes_on) {
  const std::vector<Piece> pieces = pieces_of(sessions, tokens, "feed_for_best()");
  if (pieces.empty()) return {};
  return sessions[0]->state_->model->append_for_best(pieces, goes_on);
}

const std::vector<TokenId>& Session::tokens() const { return state_->sequence.tokens; }
void Session::truncate(std::int64_t count) { state_->model->truncate(state_->sequence, count); }
std::int64_t Session::shift(std::int64_t keep) { return state_->model->shift(state_->sequence, keep); }

}  // namespace hearth::llm
