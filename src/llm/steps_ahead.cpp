#include "llm/steps_ahead.h"

#include <algorithm>
#include <limits>

#include "device/backend.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth::llm {

struct StepsAhead::Batch {
  Tensor tokens, sequences, positions, slots, table;  // as DecoderInput
  std::vector<std::int64_t> table_now;
  // Gives what a step has chosen, by its best tokens and its scores, and goes on to that.
  Compiled::Function advance;
  // Of the host, for what two steps have chosen.
  std::shared_ptr<std::byte> chosen;
  std::size_t bytes, turn = 0;
};

struct StepsAhead::Step {
  std::unique_ptr<Download> download;
  const std::int64_t* chosen;  // when that is done
  // Where it was begun ahead: what it continues.
  std::vector<const Sequence*> sequences{};
  std::vector<std::uint64_t> versions{};
  std::vector<TokenId> tokens{};
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
  return where(top > -std::numeric_limits<double>::infinity(), best, full(best.shape(), -1, DType::i64));
}

}  // namespace

bool StepsAhead::possible(const Model::State& model) {
  return model.device.kind != DeviceKind::cpu && model.stages.size() == 1;
}

StepsAhead::StepsAhead(Model::State& model)
    : model_(model), step_([&model](const std::vector<Tensor>& in) {
        DecoderInput input;
        input.tokens = in[0], input.sequences = in[1], input.positions = in[2], input.slots = in[3];
        input.table = in[4];
        const Tensor scores = model.scores_of(input);
        return std::vector<Tensor>{argmax(scores, 1), scores};
      }) {}

StepsAhead::~StepsAhead() = default;

bool StepsAhead::is_begun(std::span<const Piece> pieces) const {
  if (!begun_ || begun_->sequences.size() != pieces.size()) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].sequence != begun_->sequences[i] || pieces[i].sequence->version != begun_->versions[i] ||
        pieces[i].tokens[0] != begun_->tokens[i])
      return false;
  return true;
}

StepsAhead::Batch& StepsAhead::batch_of(std::size_t count) {
  std::unique_ptr<Batch>& batch = batches_[count];
  if (batch) return *batch;
  const auto n = static_cast<std::int64_t>(count);
  const Device device = model_.device;
  auto made = std::make_unique<Batch>();
  for (Tensor* each : {&made->tokens, &made->positions, &made->slots}) *each = zeros({n}, DType::i64).eval();
  made->sequences = arange(n).to(DType::i64).eval();
  made->table_now.assign(count * static_cast<std::size_t>(model_.pages()), 0);
  made->table = numbers(made->table_now, {n, model_.pages()}, device);
  made->bytes = count * sizeof(std::int64_t);
  made->chosen = host_memory(device, 2 * made->bytes);
  made->advance = compile([b = made.get()](const std::vector<Tensor>& in) {
    const Tensor chosen = checked(in[0], in[1]);
    b->tokens.assign(maximum(chosen, full(chosen.shape(), 0, DType::i64)));
    b->positions.assign(b->positions + 1);
    b->slots.assign(b->slots + 1);
    return std::vector<Tensor>{chosen};
  });
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

StepsAhead::Step StepsAhead::launch(Batch& batch) {
  const Tensor chosen =
      batch.advance(step_({batch.tokens, batch.sequences, batch.positions, batch.slots, batch.table}))[0];
  std::byte* const memory = batch.chosen.get() + batch.turn * batch.bytes;
  batch.turn = 1 - batch.turn;
  return {start_reading(chosen, memory), reinterpret_cast<const std::int64_t*>(memory)};
}

std::vector<TokenId> StepsAhead::append(std::span<const Piece> pieces, bool goes_on) {
  const NoGrad no_gradients;
  const DeviceScope here(model_.device);
  const bool begun = is_begun(pieces);
  // One that was begun in vain is waited for when the next one is under way.
  const std::unique_ptr<Step> before = std::move(begun_);
  Batch& batch = batch_of(pieces.size());
  std::optional<Step> started;
  if (!begun) {
    std::vector<std::int64_t> tokens;
    for (const Piece& piece : pieces) tokens.push_back(piece.tokens[0]);
    overwrite(batch.tokens, tokens);
    set_places(batch, pieces, 0);
    started = launch(batch);
  }
  const Step& step = begun ? *before : *started;
  std::unique_ptr<Step> next;
  const bool has_room = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return static_cast<std::int64_t>(piece.sequence->tokens.size()) + 1 < model_.context;
  });
  if (goes_on && has_room) {
    set_places(batch, pieces, 1);
    next = std::make_unique<Step>(launch(batch));
  }
  step.download->wait();
  std::vector<TokenId> chosen;
  for (std::size_t i = 0; i < pieces.size(); ++i) chosen.push_back(static_cast<TokenId>(step.chosen[i]));
  if (std::any_of(chosen.begin(), chosen.end(), [](TokenId token) { return token < 0; })) return chosen;
  for (const Piece& piece : pieces) {
    piece.sequence->tokens.push_back(piece.tokens[0]);
    piece.sequence->version = ++versions_;
    if (!next) continue;
    next->sequences.push_back(piece.sequence);
    next->versions.push_back(piece.sequence->version);
  }
  if (next) next->tokens = chosen;
  begun_ = std::move(next);
  return chosen;
}

}  // namespace hearth::llm
