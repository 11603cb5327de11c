// Inference: segments until each sequence is done.
#include <fmt/format.h>

#include <chrono>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/hrm.h"
#include "hearth/ops.h"

namespace hearth::hrm {
namespace {

// The sequences of one batch that are not done.
struct Working {
  std::vector<std::int64_t> sequences;  // in the rows of the tensors; -1: done, the row is not looked at
  Tensor tokens, puzzles;
  Carry carry;
};

// Leaves out the rows that are done, if that halves the batch: every size has a plan of its own.
void shrink(Working& working) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < working.sequences.size(); ++i)
    if (working.sequences[i] >= 0) rows.push_back(static_cast<std::int64_t>(i));
  auto size = static_cast<std::int64_t>(working.sequences.size());
  while (size / 2 >= static_cast<std::int64_t>(rows.size()) && size > 1) size = (size + 1) / 2;
  if (size == static_cast<std::int64_t>(working.sequences.size())) return;
  std::vector<std::int64_t> sequences;
  for (const auto row : rows) sequences.push_back(working.sequences[static_cast<std::size_t>(row)]);
  rows.resize(static_cast<std::size_t>(size), rows.front());
  sequences.resize(static_cast<std::size_t>(size), -1);
  working.sequences = std::move(sequences);
  const Tensor kept = tensor(rows);
  for (Tensor* x : {&working.tokens, &working.puzzles, &working.carry.z_h, &working.carry.z_l})
    *x = take(*x, kept, 0);
}

}  // namespace

Reasoner::Reasoner(std::shared_ptr<const Hrm> model)
    : model_(std::move(model)), segment_(compile([used = model_](const std::vector<Tensor>& a) {
        const NoGrad no_grad;
        const SegmentResult result =
            used->segment({a[2], a[3]}, used->embed(a[0], used->puzzle_vectors(a[1])));
        return std::vector<Tensor>{result.carry.z_h, result.carry.z_l,
                                   argmax(result.scores, -1).to(DType::i32), result.q_halt};
      })) {}

std::vector<Answer> Reasoner::run(std::span<const std::int32_t> tokens, std::span<const std::int32_t> puzzles,
                                  const ReasonOptions& options) {
  const HrmConfig& config = model_->config();
  const auto length = static_cast<std::size_t>(config.length);
  if (tokens.size() % length != 0)
    throw ValueError(fmt::format("[Reasoner] {} tokens are not sequences of {}", tokens.size(), length));
  const std::size_t count = tokens.size() / length;
  if (!puzzles.empty() && puzzles.size() != count)
    throw ValueError(fmt::format("[Reasoner] {} puzzle ids for {} sequences", puzzles.size(), count));
  if (options.most_segments < 1 || options.batch < 1)
    throw ValueError("[Reasoner] most_segments and batch must be positive");
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= config.vocabulary)
      throw ValueError(fmt::format("[Reasoner] token {} of a vocabulary of {}", token, config.vocabulary));

  const auto start = std::chrono::steady_clock::now();
  const auto out_of_time = [&] {
    return options.seconds > 0 &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= options.seconds;
  };
  std::vector<Answer> answers(count);
  for (std::size_t first = 0; first < count; first += static_cast<std::size_t>(options.batch)) {
    const std::size_t size = std::min(static_cast<std::size_t>(options.batch), count - first);
    const auto rows = static_cast<std::int64_t>(size);
    Working working;
    for (std::size_t i = 0; i < size; ++i) working.sequences.push_back(static_cast<std::int64_t>(first + i));
    const auto part = tokens.subspan(first * length, size * length);
    working.tokens = tensor(std::vector<std::int32_t>(part.begin(), part.end()), {rows, config.length});
    const auto ids = puzzles.empty() ? puzzles : puzzles.subspan(first, size);
    working.puzzles = tensor(ids.empty() ? std::vector<std::int32_t>(size)
                                         : std::vector<std::int32_t>(ids.begin(), ids.end()));
    working.carry = model_->initial_carry(rows);
    working.carry = {working.carry.z_h.contiguous(), working.carry.z_l.contiguous()};

    for (std::int64_t segment = 1; segment <= options.most_segments; ++segment) {
      const auto results = segment_({working.tokens, working.puzzles, working.carry.z_h, working.carry.z_l});
      working.carry = {results[0], results[1]};
      const auto predicted = results[2].to_vector<std::int32_t>();
      const auto q = results[3].to_vector<float>();
      bool anything_left = false;
      for (std::size_t row = 0; row < working.sequences.size(); ++row) {
        const std::int64_t sequence = working.sequences[row];
        if (sequence < 0) continue;
        const auto answer_tokens = std::span(predicted).subspan(row * length, length);
        Answer& answer = answers[static_cast<std::size_t>(sequence)];
        answer.segments = segment;
        answer.q_halt = q[row];
        if (q[row] > 0 && !answer.halted) {
          answer.halted = true;
          answer.halted_tokens.assign(answer_tokens.begin(), answer_tokens.end());
          answer.halted_segments = segment;
        }
        if (options.on_segment) options.on_segment(sequence, segment, answer_tokens, q[row]);
        const bool done = options.done ? options.done(sequence, answer_tokens, q[row]) : q[row] > 0;
        if (done || segment == options.most_segments || out_of_time()) {
          answer.tokens.assign(answer_tokens.begin(), answer_tokens.end());
          working.sequences[row] = -1;
        } else {
          anything_left = true;
        }
      }
      if (!anything_left) break;
      shrink(working);
    }
  }
  return answers;
}

}  // namespace hearth::hrm
