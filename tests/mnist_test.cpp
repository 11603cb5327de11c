// Training on MNIST, and the models of models.h learning something small.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "hearth/data.h"
#include "hearth/error.h"
#include "hearth/models.h"
#include "hearth/ops.h"
#include "hearth/random.h"
#include "hearth/train.h"

namespace hearth {
namespace {

std::filesystem::path mnist_folder() { return std::filesystem::path(HEARTH_SHARED_DIR) / "data/mnist"; }

data::DatasetPtr normalised(const data::DatasetPtr& images) {
  return std::make_shared<data::MapDataset>(images,
                                            std::vector{data::normalize({0.1307 * 255}, {0.3081 * 255})});
}

TEST(Mnist, LearnsFromAFewThousandImages) {
  if (!data::has_mnist(mnist_folder())) GTEST_SKIP() << "no MNIST in the shared folder beside the repository";
  const auto whole = data::mnist(mnist_folder(), true);
  ASSERT_EQ(whole->size(), 60000);
  std::vector<std::int64_t> few(5000);
  for (std::size_t i = 0; i < few.size(); ++i) few[i] = static_cast<std::int64_t>(i);
  manual_seed(0);
  data::DataLoader train_loader(normalised(std::make_shared<data::Subset>(whole, few)),
                                {.batch_size = 64, .shuffle = true, .drop_last = true, .workers = 1});
  std::vector<std::int64_t> some(few.begin(), few.begin() + 2000);
  data::DataLoader test_loader(
      normalised(std::make_shared<data::Subset>(data::mnist(mnist_folder(), false), some)),
      {.batch_size = 500});
  auto model = std::make_shared<models::MnistCnn>();
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.learning_rate = 2e-3});
  train::TrainerConfig config{.epochs = 2};
  config.progress.enabled = false;
  config.use_compile = true;
  train::Trainer trainer(
      model, optimizer, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }, config);
  trainer.add_metric(std::make_unique<metrics::Accuracy>());
  const train::Result result = trainer.fit(train_loader, &test_loader);
  EXPECT_GT(*result.best, 0.92);
}

TEST(Models, GptLearnsToRepeatACycle) {
  manual_seed(0);
  auto model = std::make_shared<models::Gpt>(
      models::GptOptions{.vocabulary = 8, .context = 16, .layers = 2, .heads = 2, .features = 32});
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.learning_rate = 3e-3});
  // Token t is followed by t + 3 modulo 7.
  std::vector<std::int64_t> tokens, targets;
  for (std::int64_t row = 0; row < 64; ++row)
    for (std::int64_t t = 0; t < 16; ++t) {
      tokens.push_back((row + 3 * t) % 7);
      targets.push_back((row + 3 * (t + 1)) % 7);
    }
  data::DataLoader loader(std::make_shared<data::TensorDataset>(std::vector<Tensor>{
                              tensor(tokens, Shape{64, 16}), tensor(targets, Shape{64, 16})}),
                          {.batch_size = 16, .shuffle = true});
  train::TrainerConfig config{.epochs = 15};
  config.progress.enabled = false;
  train::Trainer trainer(
      model, optimizer,
      [&](const data::Batch& batch) {
        return train::Forward{model->loss(batch[0], batch[1]), {}, {}};
      },
      config);
  const train::Result result = trainer.fit(loader);
  EXPECT_NEAR(result.history.front().train_loss, std::log(8.0), 0.7);
  EXPECT_LT(result.train_loss, 0.1);
  EXPECT_THROW(model->forward(zeros({1, 17}, DType::i64)), ShapeError);
}

}  // namespace
}  // namespace hearth
