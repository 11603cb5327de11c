// Training of reasoning models: curves that repeat, runs that go on after a kill, and what goes wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/hrm_train.h"
#include "hearth/io.h"
#include "temporary_folder.h"
#include "test_devices.h"

namespace hearth::hrm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

HrmConfig tiny_config() {
  HrmConfig c = sudoku_config();
  c.features = 32;
  c.unit_features = 8;
  c.l_layers = 1;
  c.l_cycles = 1;
  c.most_segments = 3;
  return c;
}

TrainOptions tiny(const std::filesystem::path& folder = {}) {
  TrainOptions options;
  options.model = tiny_config();
  options.batch = 6;
  options.steps = 12;
  options.warmup = 3;
  options.learning_rate = 3e-3;
  options.seed = 4;
  options.log_every = 2;
  options.evaluate_every = 0;
  options.folder = folder;
  options.progress.enabled = false;
  return options;
}

std::shared_ptr<ExampleSource> easy_puzzles() {
  static const auto pool = make_puzzles({{.making = Making::dig, .clues_from = 50, .clues_to = 60}}, 50, 1);
  return sudoku_source(pool, 2);
}

// Fails from some step on, as a killed process does, only more conveniently.
class FailingSource : public ExampleSource {
 public:
  explicit FailingSource(std::int64_t last) : last_(last) {}
  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override {
    if (step >= last_) throw FileError("no more");
    inner_->fill(step, row, tokens, labels, puzzle);
  }

 private:
  std::shared_ptr<ExampleSource> inner_ = easy_puzzles();
  std::int64_t last_;
};

std::vector<double> losses(const TrainResult& result) {
  std::vector<double> values;
  for (const TrainLine& line : result.lines) values.push_back(line.loss);
  return values;
}

std::vector<float> weights(const Hrm& model) {
  std::vector<float> all;
  for (const auto& [name, value] : model.state_dict()) {
    const auto part = value.to_vector<float>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class HrmTraining : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override { set_default_device(GetParam()); }
  void TearDown() override { set_default_device(Device{}); }
};

TEST_P(HrmTraining, TheSeedDecides) {
  const TrainResult first = train(tiny(), easy_puzzles()), again = train(tiny(), easy_puzzles());
  ASSERT_EQ(first.lines.size(), 6u);
  EXPECT_EQ(losses(first), losses(again));
  EXPECT_EQ(weights(*first.model), weights(*again.model));
  TrainOptions other = tiny();
  other.seed = 5;
  EXPECT_NE(losses(train(other, easy_puzzles())), losses(first));
}

TEST_P(HrmTraining, AKilledRunGoesOnAsIfItHadNotBeen) {
  const TrainResult whole = train(tiny(), easy_puzzles());
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  options.checkpoint_minutes = 0;  // at every step
  for (const std::int64_t killed_at : {5, 8}) {
    options.resume = train::Resume::automatic;
    EXPECT_THROW(train(options, std::make_shared<FailingSource>(killed_at)), FileError);
  }
  options.resume = train::Resume::required;
  const TrainResult resumed = train(options, easy_puzzles());
  EXPECT_GE(resumed.resumed_from, 7);
  EXPECT_EQ(losses(resumed), losses(whole));
  EXPECT_EQ(weights(*resumed.model), weights(*whole.model));
}

TEST_P(HrmTraining, ADamagedCheckpointIsPassedOver) {
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  options.checkpoint_minutes = 0;
  train(options, easy_puzzles());
  auto paths = train::list_checkpoints(folder.path());
  ASSERT_EQ(paths.size(), 2u);
  std::filesystem::resize_file(paths.back(), 1000);
  options.steps = 14;
  options.resume = train::Resume::required;
  EXPECT_EQ(train(options, easy_puzzles()).resumed_from, 11);
}

TEST_P(HrmTraining, WritesItsFiles) {
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  options.evaluate_every = 6;
  const TrainResult result = train(options, easy_puzzles(), [](Reasoner& reasoner) {
    const auto score =
        hrm::score(reasoner, {"easy", make_puzzles({{.clues_from = 60, .clues_to = 70}}, 3, 9)});
    return Figures{{"easy", static_cast<double>(score.solved) / 3}, {"constant", 0.5}};
  });
  ASSERT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.evaluations[1].step, 12);
  for (const char* name : {"model.safetensors", "log.csv", "evaluations.csv", "progress.svg"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / name)) << name;
  EXPECT_EQ(CsvTable(folder.path() / "log.csv").rows(), 6u);
  EXPECT_EQ(CsvTable(folder.path() / "evaluations.csv").rows(), 4u);
  const auto model = load_model(folder.path() / "model.safetensors");
  EXPECT_EQ(model->config().features, 32);
  // bf16 on disk.
  const auto saved = weights(*model), kept = weights(*result.model);
  ASSERT_EQ(saved.size(), kept.size());
  for (std::size_t i = 0; i < saved.size(); ++i)
    ASSERT_NEAR(saved[i], kept[i], 0.004 * std::abs(kept[i]) + 1e-6);
}

TEST_P(HrmTraining, NonFiniteLossesEndTheRunAndKeepTheLastGoodCheckpoint) {
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  options.checkpoint_minutes = 0;
  options.learning_rate = 1e38;
  expect_error<train::NonFiniteLoss>([&] { train(options, easy_puzzles()); }, {"lower learning rate"});
  for (const auto& path : train::list_checkpoints(folder.path()))
    for (const auto& [name, tensor] : load_safetensors(path)) {
      if (!name.starts_with("model.")) continue;
      for (const float value : tensor.to_vector<float>()) ASSERT_TRUE(std::isfinite(value)) << path << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, HrmTraining, testing::ValuesIn(tested_devices()));

TEST(HrmTrainingOptions, RefusesWhatCannotBe) {
  TrainOptions options = tiny();
  options.steps = 0;
  expect_error<ValueError>([&] { train(options, easy_puzzles()); }, {"neither steps nor minutes"});
  options = tiny();
  options.batch = 0;
  expect_error<ValueError>([&] { train(options, easy_puzzles()); }, {"batch"});
  expect_error<ValueError>([&] { train(tiny(), nullptr); }, {"no examples"});
  expect_error<ValueError>([&] { sudoku_source({}, 1); }, {"no puzzles"});
  options = tiny();
  options.model.features = 0;
  expect_error<ValueError>([&] { train(options, easy_puzzles()); }, {"features"});
}

TEST(HrmTrainingOptions, TheProgramSeesEveryLineAndMayEndTheRun) {
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  std::vector<double> seen;
  options.on_line = [&](const TrainLine& line) {
    seen.push_back(line.loss);
    return line.step < 6;
  };
  const TrainResult stopped = train(options, easy_puzzles());
  EXPECT_EQ(stopped.ending, train::Ending::stopped);
  EXPECT_EQ(stopped.steps, 6);
  EXPECT_EQ(seen, losses(stopped));
  options.on_line = {};
  options.resume = train::Resume::required;
  EXPECT_EQ(losses(train(options, easy_puzzles())), losses(train(tiny(), easy_puzzles())));
}

TEST(HrmTrainingOptions, FreshPuzzlesAreScored) {
  Reasoner reasoner(std::make_shared<Hrm>(tiny_config()));
  const Figures figures = sudoku_evaluation(2)(reasoner);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0].first, "30-34 clues");
  EXPECT_EQ(figures[0].second, 0);  // nothing was learned
}

TEST(HrmTrainingOptions, FreshPuzzlesAreNoneOfThoseTrainedOn) {
  for (const std::uint64_t seed : {1, 0}) {
    std::set<Grid> solutions;
    for (const Puzzle& puzzle : make_puzzles(training_mixture(), 100, seed))
      solutions.insert(puzzle.solution);
    for (const SudokuSet& set : evaluation_sets(8, seed))
      for (const Puzzle& puzzle : set.puzzles) EXPECT_FALSE(solutions.contains(puzzle.solution)) << set.name;
  }
}

TEST(HrmTrainingOptions, FiguresThatAreNoNumbersSurviveACheckpoint) {
  const TemporaryFolder folder;
  TrainOptions options = tiny(folder.path());
  const Evaluate evaluate = [](Reasoner&) { return Figures{{"none", std::nan("")}, {"half", 0.5}}; };
  train(options, easy_puzzles(), evaluate);
  options.steps += 2;
  options.resume = train::Resume::required;
  const TrainResult resumed = train(options, easy_puzzles(), evaluate);
  ASSERT_EQ(resumed.evaluations.size(), 2u);
  EXPECT_TRUE(std::isnan(resumed.evaluations[0].figures[0].second));
  EXPECT_EQ(resumed.evaluations[0].figures[1], std::pair(std::string("half"), 0.5));
}

TEST(HrmTrainingOptions, ACheckpointOfAnotherSetUpIsRefused) {
  const TemporaryFolder folder;
  train(tiny(folder.path()), easy_puzzles());
  expect_error<ValueError>([&] { train(tiny(folder.path()), easy_puzzles()); },
                           {"checkpoints of another run"});
  TrainOptions other = tiny(folder.path());
  other.resume = train::Resume::automatic;
  other.model.features = 16;
  expect_error<ValueError>([&] { train(other, easy_puzzles()); }, {"other options", "features"});
  const TemporaryFolder empty;
  TrainOptions none = tiny(empty.path());
  none.resume = train::Resume::required;
  expect_error<FileError>([&] { train(none, easy_puzzles()); }, {"no checkpoint"});
}

TEST(HrmTrainingOptions, ATimeLimitEndsARun) {
  TrainOptions options = tiny();
  options.steps = 0;
  options.minutes = 0.02;
  const TrainResult result = train(options, easy_puzzles());
  EXPECT_GT(result.steps, 1);
  EXPECT_LT(result.seconds, 60);
}

// The whole way: weights, gradients, halting and data must all be right for this.
TEST(HrmTrainingOptions, LearnsAHandfulOfPuzzles) {
  TrainOptions options = tiny();
  options.model.precision = DType::f32;
  options.batch = 16;
  options.steps = 150;
  options.learning_rate = 4e-3;
  options.last_rate = 0.3;
  options.ema_decay = 0;
  options.log_every = 25;
  const TrainResult result = train(options, easy_puzzles());
  EXPECT_GT(result.lines.front().token_loss, 1.5);
  EXPECT_LT(result.lines.back().token_loss, 0.5 * result.lines.front().token_loss);
  EXPECT_GT(result.lines.back().accuracy, 0.6);
}

}  // namespace
}  // namespace hearth::hrm
