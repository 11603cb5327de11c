// The training loop: learning, limits, early stopping, checkpoints, resumption bit for bit, interrupts, bad
// losses.
#include "hearth/train.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/io.h"
#include "hearth/models.h"
#include "hearth/ops.h"
#include "hearth/random.h"
#include "temporary_folder.h"

namespace hearth::train {
namespace {

using data::DataLoader;
using test::TemporaryFolder;

// Points in the plane, class by quadrant.
std::shared_ptr<data::TensorDataset> quadrants(std::int64_t count, std::uint64_t seed) {
  data::SampleRandom random(seed);
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = random.normal(), y = random.normal();
    points.insert(points.end(), {static_cast<float>(x), static_cast<float>(y)});
    labels.push_back((x > 0 ? 1 : 0) + (y > 0 ? 2 : 0));
  }
  return std::make_shared<data::TensorDataset>(
      std::vector<Tensor>{tensor(points, Shape{count, 2}), tensor(labels, Shape{count})});
}

TrainerConfig quiet(TrainerConfig config) {
  config.progress.enabled = false;
  return config;
}

// A run with everything that has state: dropout, batch norm, noise in the data, momentum.
struct Session {
  explicit Session(TrainerConfig config, int workers = 0, double learning_rate = 0.01)
      : train(std::make_shared<data::MapDataset>(quadrants(203, 1), std::vector{data::gaussian_noise(0.1)}),
              {.batch_size = 16, .shuffle = true, .workers = workers, .seed = 3}),
        test(quadrants(100, 2), {.batch_size = 32}) {
    manual_seed(5);
    auto net = std::make_shared<nn::Sequential>();
    net->add<nn::Linear>(2, 16)
        .add<nn::BatchNorm1d>(16)
        .add<nn::ReLU>()
        .add<nn::Dropout>(0.1)
        .add<nn::Linear>(16, 4);
    model = net;
    optimizer = std::make_shared<optim::AdamW>(model->parameters(),
                                               optim::AdamWOptions{.learning_rate = learning_rate});
    trainer = std::make_unique<Trainer>(
        model, optimizer, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); },
        quiet(std::move(config)));
    trainer->add_metric(std::make_unique<metrics::Accuracy>());
  }
  Result fit() { return trainer->fit(train, &test); }
  // Everything the run has computed, bit by bit.
  std::vector<std::vector<std::byte>> bits() const {
    std::vector<std::vector<std::byte>> all;
    for (const auto& [name, value] : model->state_dict()) all.push_back(value.to_bytes());
    for (const auto& [name, value] : optimizer->state_dict()) all.push_back(value.to_bytes());
    return all;
  }

  DataLoader train, test;
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
};

// Calls `action` after a step.
class AtStep : public Callback {
 public:
  AtStep(std::int64_t step, std::function<void(Trainer&)> action) : step_(step), action_(std::move(action)) {}
  void on_step(Trainer& trainer, std::int64_t step, double) override {
    if (step == step_) action_(trainer);
  }

 private:
  std::int64_t step_;
  std::function<void(Trainer&)> action_;
};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Crash {};

// No file may grow beyond `bytes` while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_before_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_before_)(int);
};

void crash_at(Session& run, std::int64_t step) {
  run.trainer->add_callback(std::make_shared<AtStep>(step, [](Trainer&) { throw Crash{}; }));
  EXPECT_THROW(run.fit(), Crash);
}

TEST(Train, LossFallsAndMetricsAreKept) {
  Session run({.epochs = 12}, 1);
  const Result result = run.fit();
  EXPECT_EQ(result.ending, Ending::finished);
  EXPECT_EQ(result.steps, 12 * 13);
  EXPECT_EQ(result.epochs, 12);
  ASSERT_EQ(result.history.size(), 12u);
  EXPECT_LT(result.history.back().train_loss, 0.6 * result.history.front().train_loss);
  ASSERT_TRUE(result.history.back().evaluation);
  EXPECT_EQ(result.history.back().evaluation->samples, 100);
  EXPECT_GT(result.history.back().evaluation->metrics.at(0).second, 0.85);
  EXPECT_EQ(
      *result.best,
      result.history[static_cast<std::size_t>(result.best_step / 13 - 1)].evaluation->metrics[0].second);
  EXPECT_TRUE(run.model->training());
}

TEST(Train, ALoaderMayHaveBeenUsedBefore) {
  Session run({.epochs = 1});
  for (const data::Batch& batch : run.train) static_cast<void>(batch);
  EXPECT_EQ(run.fit().steps, 13);
}

TEST(Train, LimitsBySteps) {
  Session run({.steps = 20, .evaluate_steps = 8});
  const Result result = run.fit();
  EXPECT_EQ(result.steps, 20);
  ASSERT_EQ(result.history.size(), 3u);  // 8, 16 and the end
  EXPECT_EQ(result.history[1].step, 16);
  EXPECT_EQ(result.history[2].step, 20);
  EXPECT_EQ(run.fit().steps, 20);  // nothing is left to do
}

TEST(Train, RefusesWrongConfigurations) {
  EXPECT_THROW(Session({.epochs = -1}), ValueError);
  EXPECT_THROW(Session({.epochs = 1, .accumulate = 0}), ValueError);
  EXPECT_THROW(Session({.epochs = 1, .ema_decay = 1.0}), ValueError);
  EXPECT_THROW(Session({.epochs = 1, .schedule = schedule::constant(), .plateau = PlateauOptions{}}),
               ValueError);
  EXPECT_THROW(Session(TrainerConfig{}).fit(), ValueError);
  EXPECT_THROW(Session({.epochs = 1, .monitor = "beauty"}).fit(), ValueError);
  Session session({.epochs = 1});
  EXPECT_THROW(session.trainer->fit(session.train, &session.train), ValueError);
}

TEST(Train, AccumulationEqualsALargerBatch) {
  // Without dropout, batch norm and noise, two half batches make the gradient of the whole one.
  const auto train_once = [](std::int64_t batch, std::int64_t accumulate, bool compile) {
    manual_seed(1);
    auto model = std::make_shared<models::Mlp>(std::vector<std::int64_t>{2, 8, 4});
    auto optimizer =
        std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.learning_rate = 0.5});
    DataLoader loader(quadrants(40, 1), {.batch_size = batch});
    Trainer trainer(
        model, optimizer, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); },
        quiet({.epochs = 2, .accumulate = accumulate, .use_compile = compile}));
    const Result result = trainer.fit(loader);
    EXPECT_EQ(result.steps, 6);  // 16 + 16 + 8 samples in each epoch
    return model->parameters()[0].to_vector<double>();
  };
  const auto whole = train_once(16, 1, false);
  for (const bool compile : {false, true}) {
    const auto halves = train_once(8, 2, compile);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], halves[i], 1e-5);
  }
}

TEST(Train, ScheduleRunsPerStepOrPerEpoch) {
  Session by_step({.epochs = 1, .schedule = schedule::exponential(0.9)});
  by_step.fit();
  EXPECT_NEAR(by_step.optimizer->learning_rate(), 0.01 * std::pow(0.9, 13), 1e-9);
  Session by_epoch(
      {.epochs = 3, .schedule = schedule::exponential(0.5), .schedule_interval = Interval::epoch});
  by_epoch.fit();
  EXPECT_NEAR(by_epoch.optimizer->learning_rate(), 0.01 * std::pow(0.5, 3), 1e-9);
}

class NoteSteps : public Callback {
 public:
  void on_step(Trainer&, std::int64_t step, double loss) override { losses.emplace_back(step, loss); }
  std::vector<std::pair<std::int64_t, double>> losses;
};

TEST(Train, ReadingLossesLateChangesNothing) {
  for (const bool compiled : {false, true}) {
    const auto each_steps = std::make_shared<NoteSteps>(), late_steps = std::make_shared<NoteSteps>();
    Session each({.epochs = 2, .use_compile = compiled});
    each.trainer->add_callback(each_steps);
    const Result expected = each.fit();
    Session late({.epochs = 2, .use_compile = compiled, .read_loss_steps = 5});
    late.trainer->add_callback(late_steps);
    const Result result = late.fit();
    EXPECT_EQ(late_steps->losses, each_steps->losses);
    EXPECT_EQ(late_steps->losses.size(), 26u);
    ASSERT_EQ(result.history.size(), expected.history.size());
    for (std::size_t i = 0; i < result.history.size(); ++i)
      EXPECT_EQ(result.history[i].train_loss, expected.history[i].train_loss);
    EXPECT_EQ(late.bits(), each.bits());
  }
}

// Notes how far the trainer was when it told of a step.
class ReadingSteps : public Callback {
 public:
  void on_step(Trainer& trainer, std::int64_t step, double) override { read_at[step] = trainer.step(); }
  std::map<std::int64_t, std::int64_t> read_at;
};

TEST(Train, AResumedRunReadsLossesAtTheSameSteps) {
  const TemporaryFolder folder;
  TrainerConfig config{.steps = 6,
                       .checkpoints = {.folder = folder.path(), .resume = Resume::automatic},
                       .read_loss_steps = 4};
  Session(config).fit();
  config.steps = 12;
  Session resumed(config);
  const auto reading = std::make_shared<ReadingSteps>();
  resumed.trainer->add_callback(reading);
  EXPECT_EQ(resumed.fit().resumed_from, 6);
  const std::map<std::int64_t, std::int64_t> expected{{7, 8}, {8, 8}, {9, 12}, {10, 12}, {11, 12}, {12, 12}};
  EXPECT_EQ(reading->read_at, expected);
}

TEST(Train, StopsEarly) {
  Session run({.epochs = 100, .monitor = "loss", .early_stopping = {.patience = 2, .minimum_change = 10.0}});
  const Result result = run.fit();
  EXPECT_EQ(result.ending, Ending::stopped_early);
  EXPECT_EQ(result.epochs, 3);  // one best, two that did not improve by so much
  EXPECT_EQ(result.best_step, 13);
}

// Better or worse at each evaluation.
class ScriptedMetric : public metrics::Metric {
 public:
  ScriptedMetric(double change, bool grows) : change_(change), grows_(grows) {}
  std::string name() const override { return "scripted"; }
  void update(const Tensor&, const Tensor&) override {}
  double value() const override { return 100 + change_ * static_cast<double>(evaluations_); }
  void reset() override { ++evaluations_; }
  bool larger_is_better() const override { return grows_; }

 private:
  double change_;
  bool grows_;
  int evaluations_ = 0;
};

TEST(Train, APlateauIsWhereTheMonitoredValueStopsImproving) {
  for (const bool grows : {true, false})
    for (const double change : {1.0, -1.0}) {
      Session run(
          {.epochs = 4, .plateau = PlateauOptions{.factor = 0.5, .patience = 1}, .monitor = "scripted"});
      run.trainer->add_metric(std::make_unique<ScriptedMetric>(change, grows));
      run.fit();
      const bool improves = (change > 0) == grows;
      EXPECT_DOUBLE_EQ(run.optimizer->learning_rate(), improves ? 0.01 : 0.005) << grows << ' ' << change;
    }
}

TEST(Train, APlateauWithoutEvaluationWatchesTheTrainingLoss) {
  Session run({.epochs = 4, .plateau = PlateauOptions{.factor = 0.5, .patience = 0}});
  run.trainer->fit(run.train);  // its metric, which would grow, is never computed
  EXPECT_DOUBLE_EQ(run.optimizer->learning_rate(), 0.01);
}

TEST(Train, CallbackStops) {
  Session run({.epochs = 100});
  run.trainer->add_callback(std::make_shared<AtStep>(17, [](Trainer& trainer) { trainer.stop(); }));
  const Result result = run.fit();
  EXPECT_EQ(result.ending, Ending::stopped);
  EXPECT_EQ(result.steps, 17);
}

TEST(Train, EvaluationUsesAveragesAndRestores) {
  Session run({.epochs = 1, .ema_decay = 0.9});
  run.fit();
  const auto before = run.bits();
  const Evaluation first = run.trainer->evaluate(run.test);
  const Evaluation second = run.trainer->evaluate(run.test);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(run.bits(), before);
  Session plain({.epochs = 1});
  plain.fit();
  EXPECT_NE(plain.trainer->evaluate(plain.test).loss, first.loss);
}

// ---- resumption

struct Variant {
  const char* name;
  TrainerConfig config;
};

class Resumption : public testing::TestWithParam<Variant> {};

TEST_P(Resumption, IsBitForBit) {
  TrainerConfig config = GetParam().config;
  Session whole(config);
  const Result expected = whole.fit();
  const TemporaryFolder kept;
  whole.trainer->save(kept / "whole", whole.train);

  // Crashes between checkpoints, at one, within an epoch and at its end; each time with another number of
  // workers.
  for (const std::int64_t crash : {std::int64_t{4}, std::int64_t{5}, std::int64_t{12}, expected.steps - 1}) {
    const TemporaryFolder folder;
    config.checkpoints = {
        .folder = folder.path(), .every_steps = 5, .keep_last = 2, .resume = Resume::automatic};
    {
      Session crashed(config, 2);
      crash_at(crashed, crash);
    }
    manual_seed(999);  // what another process would have drawn
    Session resumed(config, static_cast<int>(crash % 3));
    const Result result = resumed.fit();
    EXPECT_EQ(result.resumed_from % 5 == 0 || result.resumed_from % 13 == 0 || result.resumed_from == 7,
              true);
    EXPECT_EQ(result.steps, expected.steps);
    EXPECT_EQ(resumed.bits(), whole.bits()) << GetParam().name << ", crash at " << crash;
    // The whole state, to the byte of the file: random numbers, place in the data and history included.
    resumed.trainer->save(folder / "resumed", resumed.train);
    EXPECT_TRUE(contents(kept / "whole") == contents(folder / "resumed")) << "crash at " << crash;
    ASSERT_EQ(result.history.size(), expected.history.size());
    for (std::size_t i = 0; i < result.history.size(); ++i) {
      EXPECT_EQ(result.history[i].step, expected.history[i].step);
      EXPECT_EQ(result.history[i].train_loss, expected.history[i].train_loss);
      EXPECT_EQ(result.history[i].evaluation->loss, expected.history[i].evaluation->loss);
      EXPECT_EQ(result.history[i].evaluation->metrics, expected.history[i].evaluation->metrics);
    }
    EXPECT_EQ(result.best, expected.best);
    EXPECT_EQ(result.best_step, expected.best_step);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, Resumption,
    testing::Values(
        Variant{"plain", {.epochs = 2}}, Variant{"compiled", {.epochs = 2, .use_compile = true}},
        Variant{"compiled_averaged",
                {.epochs = 2, .precision = Precision::f16, .ema_decay = 0.9, .use_compile = true}},
        Variant{"accumulating", {.epochs = 2, .accumulate = 2, .clip_norm = 1.0}},
        Variant{"averaged", {.epochs = 2, .ema_decay = 0.95, .schedule = schedule::one_cycle(0.02, 26)}},
        Variant{"f16", {.epochs = 2, .clip_value = 0.5, .precision = Precision::f16}},
        Variant{"bf16",
                {.epochs = 2, .precision = Precision::bf16, .plateau = PlateauOptions{.patience = 0}}}),
    [](const auto& variant) { return variant.param.name; });

// ---- checkpoints

TEST(Checkpoints, KeepsTheLastAndTheBest) {
  const TemporaryFolder folder;
  Session run({.epochs = 6, .monitor = "loss", .checkpoints = {.folder = folder.path(), .keep_last = 2}});
  const Result result = run.fit();
  const auto paths = list_checkpoints(folder.path());
  const auto best = best_checkpoint(folder.path());
  ASSERT_TRUE(best);
  EXPECT_NE(best->string().find(std::to_string(result.best_step)), std::string::npos);
  EXPECT_LE(paths.size(), 3u);
  EXPECT_GE(paths.size(), 2u);
  // Nothing but checkpoints is left in the folder.
  EXPECT_EQ(folder.files().size(), paths.size());

  Session other({.epochs = 6});
  load_model(*other.model, *best);
  EXPECT_EQ(other.trainer->evaluate(other.test).loss, *result.best);
}

TEST(Checkpoints, RefusesToMixRuns) {
  const TemporaryFolder folder;
  Session({.epochs = 1, .checkpoints = {.folder = folder.path()}}).fit();
  Session second({.epochs = 1, .checkpoints = {.folder = folder.path()}});
  EXPECT_THROW(second.fit(), ValueError);
  const TemporaryFolder empty;
  Session required({.epochs = 1, .checkpoints = {.folder = empty.path(), .resume = Resume::required}});
  EXPECT_THROW(required.fit(), FileError);
}

TEST(Checkpoints, AFolderThatCannotBeMadeIsAnErrorBeforeTheFirstStep) {
  const TemporaryFolder folder;
  const auto file = folder.put("file", "");
  Session run({.epochs = 1, .checkpoints = {.folder = file / "run"}});
  run.trainer->add_callback(std::make_shared<AtStep>(1, [](Trainer&) { throw Crash{}; }));
  EXPECT_THROW(run.fit(), FileError);
}

TEST(Checkpoints, DamagedNewestFallsBackToTheOneBefore) {
  Session whole({.epochs = 3});
  whole.fit();
  for (const double share : {0.0, 0.5, 0.99}) {
    const TemporaryFolder folder;
    const TrainerConfig config{
        .epochs = 3, .checkpoints = {.folder = folder.path(), .every_steps = 5, .resume = Resume::automatic}};
    {
      Session crashed(config);
      crash_at(crashed, 28);
    }
    const auto paths = list_checkpoints(folder.path());
    ASSERT_GE(paths.size(), 2u);  // steps 25 and 26; the best, where that is neither
    std::filesystem::resize_file(
        paths.back(), static_cast<std::uintmax_t>(share * static_cast<double>(file_size(paths.back()))));
    Session resumed(config);
    const Result result = resumed.fit();
    EXPECT_EQ(result.resumed_from, 25);
    EXPECT_EQ(resumed.bits(), whole.bits());
  }
}

TEST(Checkpoints, InterruptedSaveLeavesTheOldOne) {
  const TemporaryFolder folder;
  Session run({.epochs = 1, .checkpoints = {.folder = folder.path()}});
  run.fit();
  const auto path = folder.path() / "kept.safetensors";
  run.trainer->save(path, run.train);
  const std::string before = contents(path);
  // A save that fails on its way: a limit on the size of files stands in for a full disk.
  {
    const FileSizeLimit limit(1000);
    EXPECT_THROW(run.trainer->save(path, run.train), FileError);
  }
  EXPECT_TRUE(contents(path) == before);
  EXPECT_EQ(folder.files().size(), 2u);
}

TEST(Checkpoints, RefusesWhatIsNotOne) {
  const TemporaryFolder folder;
  Session run({.epochs = 1});
  const auto path = folder.path() / "weights.safetensors";
  save_safetensors(path, run.model->state_dict());
  EXPECT_THROW(run.trainer->load(path, run.train), FormatError);
  save_safetensors(path, {}, {{"hearth_training_state", "{\"version\": 1, \"step\": \"x\"}"}});
  EXPECT_THROW(run.trainer->load(path, run.train), FormatError);
  save_safetensors(path, {}, {{"hearth_training_state", "{\"version\": 99}"}});
  EXPECT_THROW(run.trainer->load(path, run.train), FormatError);
  save_safetensors(path, {}, {{"hearth_training_state", "[["}});
  EXPECT_THROW(run.trainer->load(path, run.train), FormatError);
  EXPECT_THROW(run.trainer->load(folder.path() / "absent", run.train), FileError);

  // Of another set-up.
  run.trainer->save(path, run.train);
  Session averaged({.epochs = 1, .ema_decay = 0.9});
  EXPECT_THROW(averaged.trainer->load(path, averaged.train), ValueError);
}

// ---- the end of a process

TEST(Interrupts, KilledProcessResumesBitForBit) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  // The child is this program again: it must find the same folder.
  const auto folder = std::filesystem::temp_directory_path() / ("hearth-killed-" + std::to_string(getuid()));
  const TrainerConfig config{
      .epochs = 3, .checkpoints = {.folder = folder, .every_steps = 4, .resume = Resume::automatic}};
  const auto killed = [&] {
    std::filesystem::remove_all(folder);
    Session run(config, 2);
    run.trainer->add_callback(std::make_shared<AtStep>(22, [](Trainer&) { raise(SIGKILL); }));
    run.fit();
  };
  EXPECT_EXIT(killed(), testing::KilledBySignal(SIGKILL), "");
  Session resumed(config);
  const Result result = resumed.fit();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.resumed_from, 20);
  Session whole({.epochs = 3});
  whole.fit();
  EXPECT_EQ(resumed.bits(), whole.bits());
}

TEST(Interrupts, FirstSignalSavesAndReturns) {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const TrainerConfig config{
        .epochs = 3,
        .checkpoints = {.folder = folder.path() / std::to_string(signal), .resume = Resume::automatic}};
    Session run(config, 2);
    run.trainer->add_callback(std::make_shared<AtStep>(17, [signal](Trainer&) { raise(signal); }));
    const Result result = run.fit();
    EXPECT_EQ(result.ending, Ending::interrupted);
    EXPECT_EQ(result.steps, 17);
    Session resumed(config);
    EXPECT_EQ(resumed.fit().resumed_from, 17);
    Session whole({.epochs = 3});
    whole.fit();
    EXPECT_EQ(resumed.bits(), whole.bits());
  }
}

// Raises a signal in the middle of an evaluation.
class InterruptingMetric : public metrics::Accuracy {
 public:
  void update(const Tensor& output, const Tensor& target) override {
    if (++updates_ == 2) raise(SIGINT);
    Accuracy::update(output, target);
  }

 private:
  int updates_ = 0;
};

TEST(Interrupts, EvaluationCutShortIsMadeUpFor) {
  const TemporaryFolder folder;
  const TrainerConfig config{.epochs = 2,
                             .checkpoints = {.folder = folder.path(), .resume = Resume::automatic}};
  Session run(config);
  run.trainer->add_metric(std::make_unique<InterruptingMetric>());
  const Result cut = run.fit();
  EXPECT_EQ(cut.ending, Ending::interrupted);
  EXPECT_EQ(cut.steps, 13);
  EXPECT_TRUE(cut.history.empty());
  Session resumed(config);
  const Result result = resumed.fit();
  Session whole({.epochs = 2});
  const Result expected = whole.fit();
  ASSERT_EQ(result.history.size(), 2u);
  EXPECT_EQ(result.history[0].evaluation->loss, expected.history[0].evaluation->loss);
  EXPECT_EQ(result.history[0].train_loss, expected.history[0].train_loss);
  EXPECT_EQ(resumed.bits(), whole.bits());
}

// The last evaluation is made up for by a run that has no step left to take.
TEST(Interrupts, AnEvaluationMadeUpForIsSaved) {
  const TemporaryFolder folder;
  const TrainerConfig config{.epochs = 1,
                             .checkpoints = {.folder = folder.path(), .resume = Resume::automatic}};
  Session run(config);
  run.trainer->add_metric(std::make_unique<InterruptingMetric>());
  EXPECT_EQ(run.fit().ending, Ending::interrupted);
  EXPECT_FALSE(best_checkpoint(folder.path()));
  Session resumed(config);
  const Result result = resumed.fit();
  EXPECT_EQ(result.steps, 13);
  EXPECT_EQ(result.best_step, 13);
  const auto best = best_checkpoint(folder.path());
  ASSERT_TRUE(best);
  EXPECT_EQ(*best, list_checkpoints(folder.path()).back());
}

TEST(Interrupts, SecondSignalEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto interrupted_twice = [] {
    Session run({.epochs = 3}, 2);
    run.trainer->add_callback(std::make_shared<AtStep>(3, [](Trainer&) {
      raise(SIGINT);
      raise(SIGINT);
    }));
    run.fit();
  };
  EXPECT_EXIT(interrupted_twice(), testing::KilledBySignal(SIGINT), "stopping after this step");
}

// ---- bad losses

void expect_bad_loss_at_step_8(std::int64_t read_loss_steps) {
  const TemporaryFolder folder;
  std::vector<float> points(320, 1.0f);
  points[2 * 16 * 7] = std::numeric_limits<float>::quiet_NaN();  // in the 8th batch of 10
  std::vector<std::int64_t> labels(160, 1);
  DataLoader loader(std::make_shared<data::TensorDataset>(
                        std::vector<Tensor>{tensor(points, Shape{160, 2}), tensor(labels, Shape{160})}),
                    {.batch_size = 16});
  auto model = std::make_shared<models::Mlp>(std::vector<std::int64_t>{2, 4});
  auto optimizer = std::make_shared<optim::SGD>(model->parameters());
  Trainer trainer(
      model, optimizer, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); },
      quiet({.epochs = 2,
             .checkpoints = {.folder = folder.path(), .every_steps = 3},
             .read_loss_steps = read_loss_steps}));
  try {
    trainer.fit(loader);
    FAIL();
  } catch (const NonFiniteLoss& error) {
    EXPECT_EQ(error.step(), 8);
    const std::string text = error.what();
    EXPECT_NE(text.find("step 8"), std::string::npos) << text;
    EXPECT_NE(text.find("checkpoint-0000000006"), std::string::npos) << text;
  }
  const auto newest = list_checkpoints(folder.path()).back();
  for (const auto& [name, value] : load_safetensors(newest)) {
    if (!name.starts_with("model.")) continue;
    for (const double x : value.to_vector<double>()) EXPECT_TRUE(std::isfinite(x)) << name;
  }
}

TEST(BadLoss, StopsWithTheStepAndKeepsTheLastGoodCheckpoint) {
  for (const std::int64_t read_loss_steps : {1, 4, 100}) expect_bad_loss_at_step_8(read_loss_steps);
}

// The last step before an evaluation spoils the weights: its loss is good, the checkpoint would not be.
TEST(BadLoss, OfAnEvaluationStopsBeforeItIsSaved) {
  const TemporaryFolder folder;
  Session run({.epochs = 2, .checkpoints = {.folder = folder.path()}});
  run.trainer->add_callback(std::make_shared<AtStep>(13, [](Trainer& trainer) {
    for (Tensor parameter : trainer.model().parameters()) parameter.assign(parameter.detach() * NAN);
  }));
  try {
    run.fit();
    FAIL();
  } catch (const NonFiniteLoss& error) {
    EXPECT_EQ(error.step(), 13);
    EXPECT_NE(std::string(error.what()).find("evaluation"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
}

// ---- progress

TEST(Progress, FitsTheWidth) {
  const ProgressView view{"epoch 1/3", 50,  200, {{"loss", "0.1234"}, {"accuracy", "0.9876"}},
                          "12.3k/s",   65.0};
  const std::string wide = render_progress(view, 120, false);
  EXPECT_EQ(
      wide,
      "epoch 1/3 #######....................... 50/200  loss 0.1234  accuracy 0.9876  12.3k/s  1:05 left");
  for (int width = 20; width < 130; ++width)
    EXPECT_LE(render_progress(view, width, false).size(), static_cast<std::size_t>(std::max(width, 30)));
  EXPECT_EQ(render_progress(view, 60, false).find("accuracy"), std::string::npos);
  const ProgressView endless{"training", 7, 0, {{"loss", "0.5"}}, "", {}};
  EXPECT_EQ(render_progress(endless, 60, false), "training 7  loss 0.5");
  EXPECT_EQ(format_duration(3725), "1:02:05");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(999.4), "999");
  EXPECT_EQ(format_count(999.6), "1k");
  EXPECT_EQ(format_count(999'600), "1M");
  EXPECT_EQ(format_count(2e12), "2T");
}

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  {
    ProgressBar bar({.stream = file, .line_seconds = 0});
    bar.begin("epoch 1/1", 10);
    bar.update(5, {{"loss", "1.0"}});
    bar.line("done");
    bar.clear();
  }
  std::rewind(file);
  std::string text(200, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(text.starts_with("epoch 1/1 5/10  loss 1.0")) << text;
  EXPECT_TRUE(text.ends_with("\ndone\n")) << text;
}

}  // namespace
}  // namespace hearth::train
