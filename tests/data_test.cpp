// Data sets, transforms, samplers and the loader.
#include "hearth/data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "temporary_folder.h"

namespace hearth::data {
namespace {

using Indices = std::vector<std::int64_t>;
using test::TemporaryFolder;

std::filesystem::path write_file(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

// Images (1, 4, 5) whose every pixel tells where it is, with the index as label.
std::shared_ptr<TensorDataset> numbered_images(std::int64_t count) {
  std::vector<float> pixels(static_cast<std::size_t>(count) * 20);
  std::iota(pixels.begin(), pixels.end(), 1.0f);
  Indices labels(static_cast<std::size_t>(count));
  std::iota(labels.begin(), labels.end(), 0);
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{tensor(pixels, Shape{count, 1, 4, 5}), tensor(labels, Shape{count})});
}

DatasetPtr augmented(const DatasetPtr& images) {
  return std::make_shared<MapDataset>(
      images, std::vector{random_crop(4, 5, 2), random_horizontal_flip(), gaussian_noise(0.5)});
}

struct SeenBatch {
  std::vector<float> pixels;
  Indices labels;
  friend bool operator==(const SeenBatch&, const SeenBatch&) = default;
};

SeenBatch seen(const Batch& batch) {
  return {batch[0].to_vector<float>(), batch[1].to_vector<std::int64_t>()};
}

std::vector<SeenBatch> one_epoch(DataLoader& loader) {
  std::vector<SeenBatch> batches;
  for (const Batch& batch : loader) batches.push_back(seen(batch));
  return batches;
}

// ---- data sets

TEST(Dataset, GathersRowsInOrder) {
  const auto images = numbered_images(6);
  const std::vector<Draw> draws{4, 0, 4};
  const Batch batch = images->get_batch(draws);
  EXPECT_EQ(batch[0].shape(), (Shape{3, 1, 4, 5}));
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (Indices{4, 0, 4}));
  EXPECT_EQ(batch[0].to_vector<float>()[0], 81.0f);
  const Sample sample = images->get(2);
  EXPECT_EQ(sample[0].shape(), (Shape{1, 4, 5}));
  EXPECT_EQ(sample[1].shape(), (Shape{}));
  EXPECT_EQ(sample[1].item<std::int64_t>(), 2);
  EXPECT_THROW(images->get(6), IndexError);
  EXPECT_THROW(images->get(-1), IndexError);
}

TEST(Dataset, RefusesArraysThatDoNotFit) {
  EXPECT_THROW(TensorDataset({}), ShapeError);
  EXPECT_THROW(TensorDataset({zeros({3, 2}), zeros({4})}), ShapeError);
  EXPECT_THROW(TensorDataset({zeros({})}), ShapeError);
}

TEST(Dataset, StackNamesTheFieldThatDiffers) {
  const std::vector<Sample> shapes{{zeros({2}), zeros({3})}, {zeros({2}), zeros({4})}};
  try {
    stack_samples(shapes);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("field 1"), std::string::npos) << error.what();
  }
  const std::vector<Sample> dtypes{{zeros({2})}, {zeros({2}, DType::i64)}};
  EXPECT_THROW(stack_samples(dtypes), DTypeError);
}

TEST(Dataset, SubsetConcatAndSplit) {
  const auto images = numbered_images(10);
  const auto subset = std::make_shared<Subset>(images, Indices{7, 3, 3});
  EXPECT_EQ(subset->size(), 3);
  EXPECT_EQ(subset->get(1)[1].item<std::int64_t>(), 3);
  EXPECT_THROW(Subset(images, {10}), IndexError);

  const Concat both({images, subset});
  EXPECT_EQ(both.size(), 13);
  EXPECT_EQ(both.get(10)[1].item<std::int64_t>(), 7);
  EXPECT_THROW(both.get(13), IndexError);
  const std::vector<Draw> mixed{12, 0, 10, 9};
  EXPECT_EQ(both.get_batch(mixed)[1].to_vector<std::int64_t>(), (Indices{3, 0, 7, 9}));
  const std::vector<Draw> from_one{10, 11};
  EXPECT_EQ(both.get_batch(from_one)[1].to_vector<std::int64_t>(), (Indices{7, 3}));

  const auto parts = random_split(images, {7, 3}, 5);
  std::set<std::int64_t> all(parts[0]->indices().begin(), parts[0]->indices().end());
  all.insert(parts[1]->indices().begin(), parts[1]->indices().end());
  EXPECT_EQ(all.size(), 10u);
  EXPECT_EQ(parts[1]->size(), 3);
  EXPECT_EQ(random_split(images, {7, 3}, 5)[0]->indices(), parts[0]->indices());
  EXPECT_NE(random_split(images, {7, 3}, 6)[0]->indices(), parts[0]->indices());
  EXPECT_THROW(random_split(images, {7, 4}), ValueError);
}

TEST(Dataset, ReadsIdxFiles) {
  const TemporaryFolder folder;
  const std::string images("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03\x01\x02\x03\xff\x05\x06", 22);
  const std::string labels("\0\0\x08\x01\0\0\0\x02\x07\x09", 10);
  const IdxDataset data(write_file(folder / "images", images), write_file(folder / "labels", labels));
  EXPECT_EQ(data.fields()[0].shape(), (Shape{2, 1, 1, 3}));
  EXPECT_EQ(data.get(1)[0].to_vector<int>(), (std::vector<int>{255, 5, 6}));
  EXPECT_EQ(data.get(1)[1].item<int>(), 9);
  EXPECT_EQ(data.fields()[1].dtype(), DType::i64);
  const std::string three("\0\0\x08\x01\0\0\0\x03\x07\x09\x01", 11);
  EXPECT_THROW(IdxDataset(folder.path() / "images", write_file(folder / "three", three)), FormatError);
  EXPECT_THROW(IdxDataset(folder.path() / "labels", folder.path() / "labels"), FormatError);
  EXPECT_FALSE(has_mnist(folder.path()));
  EXPECT_THROW(mnist(folder.path(), true), FileError);
}

TEST(Dataset, ReadsRecords) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "a.bin", std::string("\x03\x01\x02\x05\x09\x08", 6));
  const RecordDataset data({path, path}, {.label_bytes = 1, .image = {1, 1, 2}});
  EXPECT_EQ(data.size(), 4);
  EXPECT_EQ(data.get(3)[0].to_vector<int>(), (std::vector<int>{9, 8}));
  EXPECT_EQ(data.get(3)[1].item<int>(), 5);
  EXPECT_THROW(RecordDataset({path}, {.label_bytes = 1, .image = {1, 2, 2}}), FormatError);
}

TEST(Dataset, ReadsCsv) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "a.csv", "x,y,class\n1,2.5,0\n-3,4e1,2\n");
  const CsvDataset classes(path, {.target_columns = {-1}, .class_target = true});
  EXPECT_EQ(classes.get(1)[0].to_vector<double>(), (std::vector<double>{-3, 40}));
  EXPECT_EQ(classes.get(1)[1].dtype(), DType::i64);
  EXPECT_EQ(classes.get(1)[1].item<int>(), 2);
  const CsvDataset regression(path, {.target_columns = {0, 1}});
  EXPECT_EQ(regression.get(0)[1].to_vector<double>(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(CsvDataset(path).get(0).size(), 1u);
  EXPECT_THROW(CsvDataset(path, {.target_columns = {3}}), IndexError);
}

// ---- transforms

TEST(Transforms, ConvertAndNormalise) {
  const auto pixels = tensor(std::vector<std::uint8_t>{0, 255, 51, 102, 10, 20, 30, 40}, Shape{1, 2, 2, 2});
  std::vector<SampleRandom> randoms{SampleRandom(1)};
  const auto scaled = to_float()->apply(pixels, randoms).to_vector<float>();
  EXPECT_FLOAT_EQ(scaled[1], 1.0f);
  EXPECT_FLOAT_EQ(scaled[2], 0.2f);
  const auto normal = normalize({1, 10}, {2, 5})->apply(pixels, randoms).to_vector<float>();
  EXPECT_FLOAT_EQ(normal[1], 127.0f);
  EXPECT_FLOAT_EQ(normal[6], 4.0f);
  EXPECT_THROW(normalize({1, 2, 3}, {1, 1, 1})->apply(pixels, randoms), ShapeError);
  EXPECT_THROW(normalize({1}, {0}), ValueError);
}

TEST(Transforms, CropsAreWindowsOfThePaddedImage) {
  const auto images = numbered_images(1);
  const std::vector<float> original = images->fields()[0].to_vector<float>();
  const auto padded = [&](std::int64_t y, std::int64_t x) {
    return y < 0 || y >= 4 || x < 0 || x >= 5 ? 0.0f : original[static_cast<std::size_t>(y * 5 + x)];
  };
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    std::vector<SampleRandom> randoms{SampleRandom(stream)};
    const Tensor cropped = random_crop(3, 4, 1)->apply(images->fields()[0], randoms);
    ASSERT_EQ(cropped.shape(), (Shape{1, 1, 3, 4}));
    const auto values = cropped.to_vector<float>();
    bool found = false;
    for (std::int64_t top = -1; top <= 2 && !found; ++top)
      for (std::int64_t left = -1; left <= 2 && !found; ++left) {
        found = true;
        for (std::int64_t i = 0; i < 12; ++i)
          found = found && values[static_cast<std::size_t>(i)] == padded(top + i / 4, left + i % 4);
        if (found) places.emplace(top, left);
      }
    EXPECT_TRUE(found);
  }
  EXPECT_EQ(places.size(), 16u);  // every place occurs
  std::vector<SampleRandom> randoms{SampleRandom(0)};
  EXPECT_EQ(center_crop(2, 3)->apply(images->fields()[0], randoms).to_vector<float>(),
            (std::vector<float>{7, 8, 9, 12, 13, 14}));
  EXPECT_THROW(random_crop(9, 9)->apply(images->fields()[0], randoms), ShapeError);
}

TEST(Transforms, FlipAndErase) {
  const auto images = numbered_images(1);
  std::vector<SampleRandom> randoms{SampleRandom(0)};
  const auto x = images->fields()[0];
  EXPECT_EQ(random_horizontal_flip(1.0)->apply(x, randoms).to_vector<float>()[0], 5.0f);
  EXPECT_EQ(random_horizontal_flip(0.0)->apply(x, randoms).to_vector<float>()[0], 1.0f);
  EXPECT_EQ(random_vertical_flip(1.0)->apply(x, randoms).to_vector<float>()[0], 16.0f);
  const auto erased = random_erase(2, 1.0, -1)->apply(x, randoms).to_vector<float>();
  const auto count = std::count(erased.begin(), erased.end(), -1.0f);
  EXPECT_GE(count, 1);
  EXPECT_LE(count, 4);
  const auto doubled = transform([](const Tensor& image, SampleRandom&) { return image * 2; });
  EXPECT_EQ(doubled->apply(x, randoms).to_vector<float>()[3], 8.0f);
}

TEST(Transforms, DoNotDependOnTheBatch) {
  const auto images = augmented(numbered_images(8));
  const std::vector<Draw> draws{{3, 11}, {5, 12}, {3, 13}};
  const auto batch = images->get_batch(draws)[0].to_vector<float>();
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const auto alone = images->get(draws[i])[0].to_vector<float>();
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + static_cast<std::ptrdiff_t>(i * 20)));
  }
  EXPECT_FALSE(std::equal(batch.begin(), batch.begin() + 20, batch.begin() + 40));  // another stream
}

// ---- samplers

TEST(Samplers, RandomIsAPermutationThatFollowsFromSeedAndEpoch) {
  const RandomSampler sampler(1000);
  Indices order = sampler.order(1, 0);
  EXPECT_EQ(order, sampler.order(1, 0));
  EXPECT_NE(order, sampler.order(1, 1));
  EXPECT_NE(order, sampler.order(2, 0));
  EXPECT_NE(sampler.order(1, 2), sampler.order(2, 1));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, SequentialSampler(1000).order(0, 0));
  EXPECT_EQ(RandomSampler(3, 50).order(0, 0).size(), 50u);
  EXPECT_THROW(RandomSampler(0, 5), ValueError);
}

TEST(Samplers, WeightsDecideFrequencies) {
  const WeightedSampler sampler({1, 0, 3}, 20000);
  std::map<std::int64_t, int> counts;
  for (const auto index : sampler.order(3, 0)) ++counts[index];
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2] / 20000.0, 0.75, 0.02);
  const Indices all = WeightedSampler({1, 0, 3, 1}, 3, false).order(0, 0);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()), (std::set<std::int64_t>{0, 2, 3}));
  EXPECT_THROW(WeightedSampler({1, 0}, 2, false), ValueError);
  EXPECT_THROW(WeightedSampler({0, 0}, 2), ValueError);
  EXPECT_THROW(WeightedSampler({1, -1}, 2), ValueError);
  EXPECT_THROW(WeightedSampler({1, NAN}, 2), ValueError);
}

TEST(Samplers, ShardsCoverEverything) {
  const auto whole = std::make_shared<RandomSampler>(10);
  std::multiset<std::int64_t> all;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const Indices share = ShardSampler(whole, rank, 3).order(4, 2);
    EXPECT_EQ(share.size(), 4u);
    all.insert(share.begin(), share.end());
  }
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_GE(all.count(i), 1u);
  EXPECT_THROW(ShardSampler(whole, 3, 3), ValueError);
}

TEST(Samplers, ABatchMayBeAsLargeAsNumbersGo) {
  const auto samples = std::make_shared<SequentialSampler>(10);
  for (const std::int64_t batch : {std::int64_t{11}, std::numeric_limits<std::int64_t>::max()}) {
    const BatchSampler all(samples, batch);
    EXPECT_EQ(all.size(), 1);
    ASSERT_EQ(all.batches(0, 0).size(), 1u);
    EXPECT_EQ(all.batches(0, 0)[0], samples->order(0, 0));
    EXPECT_EQ(BatchSampler(samples, batch, true).size(), 0);
    EXPECT_TRUE(BatchSampler(samples, batch, true).batches(0, 0).empty());
  }
}

TEST(Samplers, StreamsAreUniform) {
  SampleRandom random(9);
  std::vector<int> counts(7);
  double sum = 0, squares = 0;
  for (int i = 0; i < 70000; ++i) {
    ++counts[static_cast<std::size_t>(random.below(7))];
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_NEAR(sum / 70000, 0, 0.02);
  EXPECT_NEAR(squares / 70000, 1, 0.03);
}

// ---- loader

TEST(DataLoader, BatchesAndEpochs) {
  DataLoader loader(numbered_images(10), {.batch_size = 4});
  EXPECT_EQ(loader.size(), 3);
  const auto first = one_epoch(loader);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].labels, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(first[2].labels, (Indices{8, 9}));
  EXPECT_EQ(loader.epoch(), 1u);
  EXPECT_EQ(one_epoch(loader), first);
  DataLoader dropping(numbered_images(10), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(one_epoch(dropping).size(), 2u);
  DataLoader empty(numbered_images(3), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(one_epoch(empty).size(), 0u);
}

TEST(DataLoader, RefusesWrongOptions) {
  const auto images = numbered_images(4);
  EXPECT_THROW(DataLoader(images, {.batch_size = 0}), ValueError);
  EXPECT_THROW(DataLoader(images, {.workers = -1}), ValueError);
  EXPECT_THROW(DataLoader(images, {.prefetch_factor = 0}), ValueError);
  EXPECT_THROW(DataLoader(nullptr, {}), ValueError);
  EXPECT_THROW(DataLoader(images, {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(4)}),
               ValueError);
}

TEST(DataLoader, BatchesDoNotDependOnWorkers) {
  const auto images = augmented(numbered_images(53));
  const auto epochs = [&](int workers, int prefetch) {
    DataLoader loader(
        images,
        {.batch_size = 5, .shuffle = true, .workers = workers, .prefetch_factor = prefetch, .seed = 42});
    std::vector<std::vector<SeenBatch>> all;
    for (int i = 0; i < 3; ++i) all.push_back(one_epoch(loader));
    return all;
  };
  const auto reference = epochs(0, 1);
  EXPECT_NE(reference[0], reference[1]);
  for (const int workers : {1, 2, 5})
    for (const int prefetch : {1, 4})
      EXPECT_EQ(epochs(workers, prefetch), reference) << workers << " " << prefetch;
}

TEST(DataLoader, ContinuesFromItsState) {
  const auto images = augmented(numbered_images(31));
  const auto options = [](int workers) {
    return DataLoaderOptions{.batch_size = 4, .shuffle = true, .workers = workers, .seed = 7};
  };
  for (std::int64_t stop = 0; stop <= 8; ++stop) {
    DataLoader whole(images, options(2));
    one_epoch(whole);
    std::vector<SeenBatch> rest;
    for (std::int64_t i = 0; i < stop; ++i) whole.next();
    const DataLoaderState state = whole.state_dict();
    EXPECT_EQ(state.epoch, 1u);
    EXPECT_EQ(state.position, stop);
    rest = one_epoch(whole);
    const auto next = one_epoch(whole);

    DataLoader resumed(images, options(stop % 3));
    resumed.load_state_dict(state);
    EXPECT_EQ(one_epoch(resumed), rest) << stop;
    EXPECT_EQ(one_epoch(resumed), next) << stop;
  }
  DataLoader other(images, {.batch_size = 5});
  EXPECT_THROW(other.load_state_dict({7, 0, 0, 8}), ValueError);
}

TEST(DataLoader, RestartBeginsTheEpochAgain) {
  DataLoader loader(numbered_images(20), {.batch_size = 3, .shuffle = true, .workers = 2});
  const SeenBatch first = seen(*loader.next());
  loader.next();
  loader.restart();
  EXPECT_EQ(seen(*loader.next()), first);
}

class FailingDataset : public Dataset {
 public:
  FailingDataset(std::int64_t count, std::int64_t bad) : count_(count), bad_(bad) {}
  std::int64_t size() const override { return count_; }
  Sample get(Draw draw) const override {
    if (draw.index == bad_ && !repaired)
      throw FormatError("sample " + std::to_string(draw.index) + " is broken");
    return {full({2}, static_cast<double>(draw.index)), tensor({draw.index})};
  }
  mutable std::atomic<bool> repaired{false};

 private:
  std::int64_t count_, bad_;
};

TEST(DataLoader, ExceptionsSurfaceAtTheirBatch) {
  for (const int workers : {0, 1, 3}) {
    const auto broken = std::make_shared<FailingDataset>(40, 13);
    DataLoader loader(broken, {.batch_size = 4, .workers = workers});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(loader.next());
    try {
      loader.next();
      FAIL();
    } catch (const FormatError& error) {
      EXPECT_STREQ(error.what(), "sample 13 is broken");
    }
    EXPECT_EQ(loader.position(), 3);
    EXPECT_THROW(loader.next(), FormatError);
    broken->repaired = true;
    EXPECT_EQ((*loader.next())[1].to_vector<std::int64_t>(), (Indices{12, 13, 14, 15}));
    EXPECT_EQ(one_epoch(loader).size(), 6u);
  }
}

class SlowDataset : public Dataset {
 public:
  std::int64_t size() const override { return 10000; }
  Sample get(Draw draw) const override {
    ++fetched;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return {tensor({draw.index})};
  }
  mutable std::atomic<int> fetched{0};
};

TEST(DataLoader, EarlyDestructionDoesNotWaitForTheEpoch) {
  const auto slow = std::make_shared<SlowDataset>();
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5; ++round) {
    DataLoader loader(slow, {.batch_size = 2, .workers = 3});
    if (round > 0) loader.next();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(slow->fetched, 200);  // no more than was prefetched
}

TEST(DataLoader, WorkersStayWithinThePrefetch) {
  const auto slow = std::make_shared<SlowDataset>();
  DataLoader loader(slow, {.batch_size = 1, .workers = 2, .prefetch_factor = 3});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LE(slow->fetched, 1 + 2 * 3);
}

TEST(DataLoader, MovesWithItsThreads) {
  DataLoader loader(numbered_images(30), {.batch_size = 2, .workers = 2});
  loader.next();
  DataLoader moved(std::move(loader));
  EXPECT_EQ(seen(*moved.next()).labels, (Indices{2, 3}));
}

TEST(DataLoader, CollatesByHand) {
  class Ragged : public Dataset {
   public:
    std::int64_t size() const override { return 6; }
    Sample get(Draw draw) const override { return {full({draw.index + 1}, static_cast<double>(draw.index))}; }
  };
  const auto pad_to_longest = [](std::span<const Sample> samples) {
    std::int64_t longest = 0;
    for (const Sample& sample : samples) longest = std::max(longest, sample[0].size(0));
    std::vector<Sample> padded;
    for (const Sample& sample : samples)
      padded.push_back({pad(sample[0], {{0, longest - sample[0].size(0)}}, -1)});
    return stack_samples(padded);
  };
  DataLoader loader(std::make_shared<Ragged>(), {.batch_size = 3, .workers = 2, .collate = pad_to_longest});
  const auto first = *loader.next();
  EXPECT_EQ(first[0].shape(), (Shape{3, 3}));
  EXPECT_EQ(first[0].to_vector<int>(), (std::vector<int>{0, -1, -1, 1, 1, -1, 2, 2, 2}));
  EXPECT_EQ((*loader.next())[0].shape(), (Shape{3, 6}));
  DataLoader without(std::make_shared<Ragged>(), {.batch_size = 3, .workers = 2});
  EXPECT_THROW(without.next(), ShapeError);
}

}  // namespace
}  // namespace hearth::data
