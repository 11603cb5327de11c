#include "llm/steps_ahead.h"

#include <algorithm>
#include <limits>

#include "device/backend.h"
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "llm/sampler_guess.h"
#include "llm/score_rows.h"
#include "tensor/variable.h"

namespace hearth::llm {

struct StepsAhead::Batch {
  Batch(std::size_t count, Device device) : guess(count, device) {}

  Tensor tokens, sequences, positions, slots, table;  // as DecoderInput
  std::vector<std::int64_t> table_now;
  SamplerGuess guess;
  // A step that goes on to what it has chosen, and gives that: the best tokens, or what samplers will
  // probably choose, and with it the scores.
  std::optional<Compiled> best, guessed;
  // Of the host, for what two steps have chosen, and for scores.
  std::shared_ptr<std::byte> chosen;
  std::size_t bytes, turn = 0;
  std::vector<std::shared_ptr<std::byte>> rooms;

  // Room for scores that nobody reads any more.
  std::shared_ptr<float> room(Device device, std::size_t bytes_of_scores);
};

struct StepsAhead::Step {
  std::unique_ptr<Download> download;
  const std::int64_t* chosen;  // when that is done
  // Where samplers are to choose:
  std::shared_ptr<float> scores{};
  std::unique_ptr<Download> download_of_scores{};

  bool has_scores() const { return scores != nullptr; }
};

struct StepsAhead::Run {
  std::unique_ptr<Step> done, next;
  std::vector<TokenId> chosen;
};

namespace {

Tensor numbers(const std::vector<std::int64_t>& values, const Shape& shape, Device device) {
  return from_host(std::as_bytes(std::span(values)), shape, DType::i64, device);
}
void overwrite(const Tensor& target, const std::vector<std::int64_t>& values) {
  hearth::overwrite(target, std::as_bytes(std::span(values)));
}

// The best token of each row of scores, or -1 where nothing is better than -infinity.
Tensor checked(const Tensor& best, const Tensor& scores) {
  const Tensor top = squeeze(take_along(scores, unsqueeze(best, 1), 1), {1});
  return where(top > -std::numeric_limits<double>::infinity(), best, full({}, -1, DType::i64));
}

}  // namespace

bool StepsAhead::possible(const Model::State& model) {
  return model.device.kind != DeviceKind::cpu && model.stages.size() == 1;
}

StepsAhead::StepsAhead(Model::State& model) : model_(model) {}

StepsAhead::~StepsAhead() = default;

std::shared_ptr<float> StepsAhead::Batch::room(Device device, std::size_t bytes_of_scores) {
  constexpr std::size_t most_rooms = 4;  // those of holders of more scores go with these
  const auto found =
      std::find_if(rooms.begin(), rooms.end(), [](const auto& each) { return each.use_count() == 1; });
  const std::shared_ptr<std::byte> memory =
      found != rooms.end() ? *found : host_memory(device, bytes_of_scores);
  if (found == rooms.end() && rooms.size() < most_rooms) rooms.push_back(memory);
  return {memory, reinterpret_cast<float*>(memory.get())};
}

bool StepsAhead::Expected::continues(std::span<const Piece> pieces) const {
  return std::equal(
             pieces.begin(), pieces.end(), sequences.begin(), sequences.end(),
             [](const Piece& piece, const Sequence* sequence) { return piece.sequence == sequence; }) &&
         std::equal(
             pieces.begin(), pieces.end(), versions.begin(),
             [](const Piece& piece, std::uint64_t version) { return piece.sequence->version == version; });
}
bool StepsAhead::Expected::is(std::span<const Piece> pieces) const {
  return continues(pieces) &&
         std::equal(pieces.begin(), pieces.end(), tokens.begin(),
                    [](const Piece& piece, TokenId token) { return piece.tokens[0] == token; });
}

StepsAhead::Batch& StepsAhead::batch_of(std::size_t count) {
  std::unique_ptr<Batch>& batch = batches_[count];
  if (batch) return *batch;
  const auto n = static_cast<std::int64_t>(count);
  const Device device = model_.device;
  auto made = std::make_unique<Batch>(count, device);
  for (Tensor* each : {&made->tokens, &made->positions, &made->slots}) *each = zeros({n}, DType::i64).eval();
  made->sequences = arange(n).to(DType::i64).eval();
  made->table_now.assign(count * static_cast<std::size_t>(model_.pages()), 0);
  made->table = numbers(made->table_now, {n, model_.pages()}, device);
  made->bytes = count * sizeof(std::int64_t);
  made->chosen = host_memory(device, 2 * made->bytes);
  const auto step = [this, b = made.get()](bool guesses) {
    return Compiled([this, b, guesses](const std::vector<Tensor>&) {
      DecoderInput input;
      input.tokens = b->tokens, input.sequences = b->sequences, input.positions = b->positions;
      input.slots = b->slots, input.table = b->table;
      const Tensor scores = model_.scores_of(input), best = argmax(scores, 1);
      const Tensor chosen = guesses ? b->guess.tokens(scores, best) : checked(best, scores);
      // Always one, for the token stays, whatever is chosen behind it. Said so, all of this is one kernel.
      const Tensor one = (chosen >= -1).to(DType::i64);
      b->tokens.assign(maximum(chosen, full({}, 0, DType::i64)));
      b->positions.assign(b->positions + one);
      b->slots.assign(b->slots + one);
      return guesses ? std::vector<Tensor>{chosen, scores} : std::vector<Tensor>{chosen};
    });
  };
  made->best.emplace(step(false));
  made->guessed.emplace(step(true));
  batch = std::move(made);
  return *batch;
}

void StepsAhead::set_places(Batch& batch, std::span<const Piece> pieces, std::size_t after) {
  const auto pages = static_cast<std::size_t>(model_.pages());
  std::vector<std::int64_t> positions, slots, table = batch.table_now;
  bool on_new_page = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Sequence& sequence = *pieces[i].sequence;
    const auto position = static_cast<std::int64_t>(sequence.tokens.size() + after);
    model_.give_pages(sequence, position + 1);
    positions.push_back(position);
    slots.push_back(model_.slot_of(sequence, position));
    on_new_page |= model_.begins_page(position);
    const auto row = table.begin() + static_cast<std::ptrdiff_t>(i * pages);
    std::fill(std::copy(sequence.pages.begin(), sequence.pages.end(), row),
              row + static_cast<std::ptrdiff_t>(pages), 0);
  }
  if (after == 0) overwrite(batch.positions, positions);
  if (after == 0 || on_new_page) overwrite(batch.slots, slots);
  if (table != batch.table_now) {
    overwrite(batch.table, table);
    batch.table_now = std::move(table);
  }
}

StepsAhead::Step StepsAhead::launch(Batch& batch, std::span<const Sampler* const> samplers,
                                    std::size_t after) {
  std::byte* const memory = batch.chosen.get() + batch.turn * batch.bytes;
  batch.turn = 1 - batch.turn;
  if (samplers.empty())
    return {start_reading((*batch.best)({})[0], memory), reinterpret_cast<const std::int64_t*>(memory)};
  batch.guess.follow(samplers, after);
  std::vector<Tensor> chosen_and_scores;
  try {
    chosen_and_scores = (*batch.guessed)({});
  } catch (...) {
    batch.guess.forget();
    throw;
  }
  const Tensor &chosen = chosen_and_scores[0], &scores = chosen_and_scores[1];
  auto room = batch.room(model_.device, scores.nbytes());
  auto download = start_reading(scores, reinterpret_cast<std::byte*>(room.get()));
  return {start_reading(chosen, memory), reinterpret_cast<const std::int64_t*>(memory), std::move(room),
          std::move(download)};
}

StepsAhead::Run StepsAhead::run(std::span<const Piece> pieces, std::span<const Sampler* const> samplers,
                                bool goes_on) {
  // One that was begun in vain is waited for when the next one is under way.
  std::unique_ptr<Step> before = std::move(begun_);
  double& right = samplers.empty() ? right_best_ : right_guesses_;
  if (before || expected_.continues(pieces)) {
    constexpr double weight = 1.0 / 32;
    right += weight * ((expected_.is(pieces) ? 1 : 0) - right);
  }
  const bool is_begun = before && before->has_scores() == !samplers.empty() && expected_.is(pieces);
  if (is_begun) ++counts_.used;
  Batch& batch = batch_of(pieces.size());
  Run run;
  if (is_begun) {
    run.done = std::move(before);
  } else {
    std::vector<std::int64_t> tokens;
    for (const Piece& piece : pieces) tokens.push_back(piece.tokens[0]);
    overwrite(batch.tokens, tokens);
    set_places(batch, pieces, 0);
    run.done = std::make_unique<Step>(launch(batch, samplers, 0));
  }
  const bool has_room = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return static_cast<std::int64_t>(piece.sequence->tokens.size()) + 1 < model_.context;
  });
  // A step in vain costs more than the host's time for a token: what is expected must mostly be right.
  constexpr double right_enough = 0.9;
  if (goes_on && has_room && right >= right_enough) {
    set_places(batch, pieces, 1);
    try {
      run.next = std::make_unique<Step>(launch(batch, samplers, 1));
      ++counts_.begun;
    } catch (const OutOfMemory&) {  // for two steps at a time: the one that was asked for is complete
    }
  }
  run.done->download->wait();
  if (run.done->has_scores()) run.done->download_of_scores->wait();
  for (std::size_t i = 0; i < pieces.size(); ++i)
    run.chosen.push_back(static_cast<TokenId>(run.done->chosen[i]));
  return run;
}

void StepsAhead::go_on_from(std::span<const Piece> pieces, Run run) {
  expected_ = {};
  for (const Piece& piece : pieces) {
    piece.sequence->tokens.push_back(piece.tokens[0]);
    piece.sequence->version = ++versions_;
    expected_.sequences.push_back(piece.sequence);
    expected_.versions.push_back(piece.sequence->version);
  }
  expected_.tokens = std::move(run.chosen);
  begun_ = std::move(run.next);
}

std::vector<TokenId> StepsAhead::append_for_best(std::span<const Piece> pieces, bool goes_on) {
  const NoGrad no_gradients;
  const DeviceScope here(model_.device);
  Run run = this->run(pieces, {}, goes_on);
  std::vector<TokenId> chosen = run.chosen;
  const bool all = std::all_of(chosen.begin(), chosen.end(), [](TokenId token) { return token >= 0; });
  if (all) go_on_from(pieces, std::move(run));
  return chosen;
}

ScoreRows StepsAhead::append(std::span<const Piece> pieces, std::span<const Sampler* const> samplers,
                             bool goes_on) {
  const NoGrad no_gradients;
  const DeviceScope here(model_.device);
  Run run = this->run(pieces, samplers, goes_on);
  auto rows = std::make_shared<ScoreRows::State>(run.done->scores, pieces.size(),
                                                 static_cast<std::size_t>(model_.config.vocabulary));
  go_on_from(pieces, std::move(run));
  return ScoreRows(std::move(rows));
}

}  // namespace hearth::llm
