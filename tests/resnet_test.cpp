// A real model on real pictures: ResNet-20 with its published weights, on CIFAR-10.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "hearth/data.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/io.h"
#include "hearth/metrics.h"
#include "hearth/models.h"

namespace hearth {
namespace {

TEST(ResNet, HasTheNumberOfParametersOfThePaper) {
  EXPECT_EQ(models::CifarResNet(20).parameter_count(), 269722);  // 0.27 M
  EXPECT_EQ(models::CifarResNet(56).parameter_count(), 853018);  // 0.85 M
  EXPECT_THROW(models::CifarResNet(21), ValueError);
}

TEST(ResNet, ClassifiesCifarAsPyTorchDoes) {
  const std::filesystem::path shared = HEARTH_SHARED_DIR;
  const auto weights = shared / "models/resnet-cifar10/resnet20-12fca82f.safetensors";
  const auto pictures = shared / "data/cifar10-4000/data_batch_1_first4000.bin";
  if (!std::filesystem::exists(weights) || !std::filesystem::exists(pictures))
    GTEST_SKIP() << "no weights or pictures in the shared folder beside the repository";

  models::CifarResNet model(20);
  // The file lacks only the counters of batch norm, which evaluation does not use.
  const LoadReport report = model.load_state_dict(load_safetensors(weights), false);
  EXPECT_TRUE(report.unexpected.empty());
  EXPECT_EQ(report.missing.size(), 19u);
  for (const std::string& name : report.missing) EXPECT_TRUE(name.ends_with("num_batches_tracked")) << name;
  model.eval();

  const auto images = std::make_shared<data::MapDataset>(
      std::make_shared<data::RecordDataset>(std::vector{pictures}),
      std::vector{data::to_float(), data::normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
  data::DataLoader loader(images, {.batch_size = 200, .workers = 1});
  metrics::Accuracy accuracy;
  std::vector<double> first;
  const NoGrad no_grad;
  for (const data::Batch& batch : loader) {
    const Tensor scores = model(batch[0]);
    eval({scores});
    if (first.empty()) first = scores[0].to_vector<double>();
    accuracy.update(scores, batch[1]);
  }
  // PyTorch 2 with the same weights: 3992 of 4000, and these scores of the first picture, a frog.
  EXPECT_EQ(std::lround(accuracy.value() * 4000), 3992);
  const std::vector<double> pytorch = {-12.4492, -5.6982, -0.6590, 9.1207,  0.7110,
                                       4.5553,   19.8279, 0.3810,  -6.6409, -9.1128};
  for (std::size_t i = 0; i < pytorch.size(); ++i) EXPECT_NEAR(first[i], pytorch[i], 2e-3);
}

}  // namespace
}  // namespace hearth
