// The reasoning model against its reference implementation: golden values made by golden/make_hrm_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/io.h"
#include "hearth/ops.h"
#include "hearth/random.h"
#include "hrm/blocks.h"
#include "hrm/losses.h"
#include "hrm/training_step.h"
#include "temporary_folder.h"
#include "test_devices.h"

namespace hearth::hrm {
namespace {

class HrmGolden : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    set_default_device(GetParam());
    golden_ = load_safetensors(HEARTH_GOLDEN_DIR "/hrm.safetensors");
  }
  void TearDown() override { set_default_device(Device{}); }

  static HrmConfig config() {
    HrmConfig c = reference_config();
    c.length = 9;
    c.puzzles = 5;
    c.features = 16;
    c.heads = 2;
    c.h_layers = 2;
    c.l_layers = 1;
    c.most_segments = 2;
    c.exploration = 0;
    c.precision = DType::f32;
    return c;
  }

  StateDict part(const std::string& prefix) const {
    StateDict result;
    for (const auto& [name, value] : golden_)
      if (name.starts_with(prefix)) result[name.substr(prefix.size())] = value;
    return result;
  }
  Tensor golden(const std::string& name) const { return golden_.at(name).to(default_device()); }

  std::shared_ptr<Hrm> model() const {
    auto result = std::make_shared<Hrm>(config());
    result->load_state_dict(part("init."));
    return result;
  }
  Examples batch(int step) const {
    const std::string prefix = "batch." + std::to_string(step) + ".";
    return {golden(prefix + "inputs"), golden(prefix + "labels"), golden(prefix + "puzzle_identifiers")};
  }

  // Largest distance, relative to the largest value.
  void expect_close(const Tensor& x, const std::string& name, double tolerance = 2e-5) const {
    const Tensor& wanted = golden_.at(name);
    ASSERT_EQ(x.shape(), wanted.shape()) << name;
    const auto a = x.to_vector<double>(), b = wanted.to_vector<double>();
    double distance = 0, size = 1e-6;
    for (std::size_t i = 0; i < a.size(); ++i) {
      distance = std::max(distance, std::abs(a[i] - b[i]));
      size = std::max(size, std::abs(b[i]));
      ASSERT_FALSE(std::isnan(a[i])) << name;
    }
    EXPECT_LT(distance / size, tolerance) << name;
  }

  TensorMap golden_;
};

TEST_P(HrmGolden, ActivationsOfEveryLayer) {
  const auto hrm = model();
  const NoGrad no_grad;
  const Examples examples = batch(0);
  const Tensor input = hrm->embed(examples.tokens, hrm->puzzle_vectors(examples.puzzles));
  Carry carry = hrm->initial_carry(4);
  int number = 0;
  const auto through = [&](const HrmLevel& level, const Tensor& sum) {
    Tensor h = sum;
    for (const auto& layer : level.layers()) {
      h = layer->forward(h);
      char name[32];
      std::snprintf(name, sizeof name, "activation.%02d", number++);
      expect_close(h, name);
    }
    return h;
  };
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 2; ++l) carry.z_l = through(hrm->l_level(), carry.z_l + (carry.z_h + input));
    carry.z_h = through(hrm->h_level(), carry.z_h + carry.z_l);
  }
  EXPECT_EQ(number, 8);

  const SegmentResult result = hrm->segment(hrm->initial_carry(4), input);
  expect_close(result.carry.z_h, "z_H");
  expect_close(result.carry.z_l, "z_L");
  expect_close(result.scores, "logits");
  expect_close(result.q_halt, "q_halt");
  expect_close(result.q_continue, "q_continue");
}

TEST_P(HrmGolden, LossAndEveryGradient) {
  const auto hrm = model();
  const Examples examples = batch(0);
  Tensor vectors = hrm->puzzle_vectors(examples.puzzles).detach();
  vectors.requires_grad_();
  const SegmentResult result = hrm->segment(hrm->initial_carry(4), hrm->embed(examples.tokens, vectors));
  const Tensor token_loss = mean(token_losses(result.scores, examples.labels, TokenLoss::stablemax));
  const Tensor right = judge(result.scores, examples.labels).exact.to(DType::f32);
  const Tensor loss = token_loss + (bce_with_logits_loss(result.q_halt, right) +
                                    bce_with_logits_loss(result.q_continue, golden("target_q_continue"))) *
                                       0.5;
  expect_close(token_loss, "token_loss.0");
  expect_close(loss, "loss.0");
  std::vector<Tensor> wanted{vectors};
  std::vector<std::string> names{"grad.puzzle_vectors"};
  for (const auto& [name, parameter] : hrm->named_parameters()) {
    wanted.push_back(parameter);
    names.push_back("grad." + name);
  }
  EXPECT_EQ(names.size(), part("grad.").size());
  const auto slopes = gradients(loss, wanted);
  for (std::size_t i = 0; i < slopes.size(); ++i) expect_close(slopes[i], names[i], 1e-4);
}

TEST_P(HrmGolden, ThreeStepsOfTraining) {
  const auto hrm = model();
  TrainingStep step(
      hrm, 4,
      {.learning_rate = 1e-2, .weight_decay = 0.1, .puzzle_learning_rate = 2e-2, .puzzle_weight_decay = 0.3});
  for (int i = 0; i < 3; ++i) {
    step.run(batch(i));
    const StateDict state = step.state_dict();
    const std::string number = std::to_string(i);
    EXPECT_EQ(state.at("sequences.halted").to_vector<int>(), golden("halted." + number).to_vector<int>());
    EXPECT_EQ(state.at("sequences.segments").to_vector<int>(), golden("steps." + number).to_vector<int>());
    const StepSums sums = step.read_sums();
    EXPECT_EQ(sums.steps, 1);
    EXPECT_NEAR(sums.loss, golden("loss." + number).item(), 2e-4);
    EXPECT_NEAR(sums.token_loss, golden("token_loss." + number).item(), 2e-4);
  }
  // The direction of a step is the gradient's over its size: where that is next to nothing, so is what the
  // direction is worth. Nearly all of the weights agree closely, and all of them roughly.
  for (const auto& [name, wanted] : part("after.")) {
    const auto a = hrm->state_dict().at(name).to_vector<double>(), b = wanted.to_vector<double>();
    ASSERT_EQ(a.size(), b.size()) << name;
    std::size_t far = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) > 2e-4) ++far;
      EXPECT_NEAR(a[i], b[i], 0.05) << name;
    }
    EXPECT_LE(far, a.size() / 100) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HrmGolden, testing::ValuesIn(tested_devices()));

// ---- configurations and files

TEST(HrmConfig, IsKeptAsJson) {
  for (const HrmConfig& config : {reference_config(), trm_config(), sudoku_config()})
    EXPECT_EQ(to_json(config_from_json(to_json(config))), to_json(config));
  EXPECT_EQ(Hrm(reference_config()).parameter_count(), 27275266);  // as published
}

TEST(HrmConfig, RefusesWhatCannotBe) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string json = to_json(reference_config());
    const auto at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return json.replace(at, from.size(), to);
  };
  test::expect_error<FormatError>([] { config_from_json("[]"); }, {"not a JSON object"});
  test::expect_error<FormatError>([&] { config_from_json(with("\"heads\":", "\"heds\":")); },
                                  {"\"heads\" is missing"});
  test::expect_error<FormatError>([&] { config_from_json(with("\"heads\":8", "\"heads\":\"8\"")); },
                                  {"heads"});
  test::expect_error<FormatError>([&] { config_from_json(with("\"rope\"", "\"ropes\"")); }, {"positions"});
  test::expect_error<FormatError>([&] { config_from_json(with("bf16", "q4_0")); }, {"precision"});
  test::expect_error<ValueError>([&] { config_from_json(with("\"heads\":8", "\"heads\":7")); },
                                 {"heads must divide"});
  test::expect_error<ValueError>([&] { config_from_json(with("\"h_layers\":4", "\"h_layers\":1000000000")); },
                                 {"h_layers must lie in"});
  test::expect_error<ValueError>([&] { config_from_json(with("\"attention\"", "\"units\"")); },
                                 {"unit_features"});
}

TEST(HrmFiles, AModelOfAnotherShapeIsRefused) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  HrmConfig small = sudoku_config();
  small.features = 16;
  small.unit_features = 4;
  const Hrm model(small);
  save_model(path, model, DType::f32);
  EXPECT_EQ(load_model(path)->parameter_count(), model.parameter_count());
  // The configuration of one and the weights of another.
  TensorMap tensors = load_safetensors(path);
  HrmConfig other = small;
  other.features = 32;
  save_safetensors(path, tensors, {{"hearth_hrm_config", to_json(other)}});
  EXPECT_THROW(load_model(path), ValueError);
  save_safetensors(path, tensors, {});
  test::expect_error<FormatError>([&] { load_model(path); }, {"not a reasoning model"});
}

// ---- inference

std::shared_ptr<Hrm> untrained_model() {
  HrmConfig config = sudoku_config();
  config.features = 16;
  config.unit_features = 4;
  config.precision = DType::f32;
  manual_seed(3);
  return std::make_shared<Hrm>(config);
}

TEST(Reasoner, MayBeMoved) {
  const std::vector<std::int32_t> tokens(81, sudoku_empty_token);
  auto first = std::make_unique<Reasoner>(untrained_model());
  Reasoner second(std::move(*first));
  first.reset();
  EXPECT_EQ(second.run(tokens, {}, {.most_segments = 1})[0].tokens.size(), 81u);
}

TEST(Reasoner, SequencesThatLeaveTheBatchDoNotChangeTheOthers) {
  Reasoner reasoner(untrained_model());
  constexpr std::int64_t count = 7;
  std::vector<std::int32_t> tokens(count * 81);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(1 + i * i % 10);
  // Sequence i is done after segments[i]; batches of 5 and 2.
  const std::vector<std::int64_t> segments{1, 6, 1, 2, 1, 3, 1};
  std::vector<std::int64_t> seen(count, 0);
  ReasonOptions options{.most_segments = 6, .batch = 5};
  options.on_segment = [&](std::int64_t sequence, std::int64_t segment, std::span<const std::int32_t>,
                           float) { EXPECT_EQ(segment, ++seen[static_cast<std::size_t>(sequence)]); };
  options.done = [&](std::int64_t sequence, std::span<const std::int32_t>, float) {
    return seen[static_cast<std::size_t>(sequence)] == segments[static_cast<std::size_t>(sequence)];
  };
  const auto together = reasoner.run(tokens, {}, options);
  EXPECT_EQ(seen, segments);
  for (std::size_t i = 0; i < count; ++i) {
    ReasonOptions alone{.most_segments = segments[i]};
    alone.done = [](std::int64_t, std::span<const std::int32_t>, float) { return false; };
    const auto answer = reasoner.run(std::span(tokens).subspan(i * 81, 81), {}, alone)[0];
    EXPECT_EQ(together[i].segments, segments[i]);
    EXPECT_EQ(together[i].tokens, answer.tokens) << i;
    EXPECT_NEAR(together[i].q_halt, answer.q_halt, 1e-4) << i;
  }
  EXPECT_TRUE(reasoner.run({}).empty());
  test::expect_error<ValueError>([&] { reasoner.run(std::span(tokens).subspan(0, 80)); }, {"80 tokens"});
  tokens[5] = 11;
  test::expect_error<ValueError>([&] { reasoner.run(tokens); }, {"token 11"});
}

TEST(Solve, EverySegmentOfEveryPuzzleIsSeen) {
  Reasoner reasoner(untrained_model());
  const Puzzle puzzle = make_puzzle({.clues_from = 60, .clues_to = 60}, 1, 0);
  const std::vector<Grid> puzzles{puzzle.clues, Grid{}, puzzle.clues};
  std::vector<std::vector<Grid>> seen(puzzles.size());
  SolveOptions options{.most_segments = 3, .attempts = 2, .batch = 2};
  options.on_segment = [&](std::size_t number, std::int64_t segment, const Grid& grid, float) {
    seen[number].push_back(grid);
    EXPECT_EQ(segment, static_cast<std::int64_t>(seen[number].size()));
  };
  const auto results = solve(reasoner, puzzles, options);
  for (std::size_t i = 0; i < puzzles.size(); ++i) {
    EXPECT_EQ(seen[i].size(), 3u) << i;  // of the first of two attempts
    EXPECT_EQ(results[i].segments, 6);
    EXPECT_FALSE(results[i].solved);
  }
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_NE(seen[0], seen[1]);
}

}  // namespace
}  // namespace hearth::hrm
