// Training on a GPU goes as on the CPU: the same losses, step by step.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "cli/synthetic_digits.h"
#include "gpu_compare.h"

namespace hearth {
namespace {

class GpuMnist : public GpuComparison {
 protected:
  // An emulated chip is slow.
  static bool emulated() { return std::getenv("HIPEMU") != nullptr; }

  static data::DatasetPtr digits() {
    const auto folder = std::filesystem::path(HEARTH_SHARED_DIR) / "data/mnist";
    const data::DatasetPtr images = data::has_mnist(folder)
                                        ? data::DatasetPtr(data::mnist(folder, true))
                                        : cli::synthetic_digits(emulated() ? 200 : 5000, 1);
    return std::make_shared<data::MapDataset>(images,
                                              std::vector{data::normalize({0.1307 * 255}, {0.3081 * 255})});
  }

  class Losses : public train::Callback {
   public:
    void on_step(train::Trainer&, std::int64_t, double loss) override { values.push_back(loss); }
    std::vector<double> values;
  };

  // The losses of the first steps of the network that `hearth train mnist` trains.
  static std::vector<double> train_on(Device device, const data::DatasetPtr& images, std::int64_t steps,
                                      std::int64_t batch_size) {
    set_default_device(device);
    manual_seed(7);
    data::DataLoader loader(
        images,
        {.batch_size = batch_size, .shuffle = true, .drop_last = true, .workers = 1, .device = device});
    auto model = std::make_shared<models::MnistCnn>();
    auto optimizer =
        std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.learning_rate = 2e-3});
    train::TrainerConfig config{.steps = steps};
    config.schedule = schedule::one_cycle(2e-3, steps);
    config.use_compile = true;
    config.progress.enabled = false;
    train::Trainer trainer(
        model, optimizer, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }, config);
    const auto losses = std::make_shared<Losses>();
    trainer.add_callback(losses);
    trainer.fit(loader);
    set_default_device(Device{});
    return losses->values;
  }

  static double mean_of_last(const std::vector<double>& values, std::size_t count) {
    double sum = 0;
    for (std::size_t i = values.size() - count; i < values.size(); ++i) sum += values[i];
    return sum / static_cast<double>(count);
  }
};

TEST_F(GpuMnist, LossesAreThoseOfTheCpu) {
  const auto images = digits();
  const std::int64_t steps = emulated() ? 5 : 100, batch_size = emulated() ? 8 : 64;
  const auto expected = train_on(Device{}, images, steps, batch_size);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(steps));
  for (const Device device : gpus()) {
    const auto losses = train_on(device, images, steps, batch_size);
    ASSERT_EQ(losses.size(), expected.size());
    // Rounding differs and grows from step to step.
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << "step " << i;
    if (steps < 100) continue;
    EXPECT_NEAR(mean_of_last(losses, 20), mean_of_last(expected, 20), 0.05);
    EXPECT_LT(mean_of_last(losses, 20), losses.front() / 3);
  }
}

}  // namespace
}  // namespace hearth
