// Data sets, samplers and the loader that makes batches of them.
//
// Determinism: the batches of a run follow from (data set, sampler, seed) alone. A sample's random numbers
// come from a stream named by (seed, epoch, position in the epoch), so augmentation does not depend on the
// number of workers or on timing.
//
// Samples and batches are made in host memory, whatever the default device is. A loader copies its batches to
// a device where it is told to; else whoever computes with them does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hearth/tensor.h"

namespace hearth::data {

// The fields of one sample, e.g. {image, label}.
using Sample = std::vector<Tensor>;
// The fields of several samples, stacked along a new first axis: {images, labels}.
using Batch = std::vector<Tensor>;

// Independent random numbers for one sample. Counter-based (SplitMix64): equal streams give equal numbers
// everywhere.
class SampleRandom {
 public:
  explicit SampleRandom(std::uint64_t stream) : state_(stream) {}
  std::uint64_t bits();
  double uniform();                        // [0, 1)
  double normal();                         // mean 0, deviation 1
  std::int64_t below(std::int64_t count);  // [0, count), without bias; count >= 1
  bool chance(double p) { return uniform() < p; }

 private:
  std::uint64_t state_;
};

// A stream that depends on both arguments and on nothing else.
std::uint64_t combine_streams(std::uint64_t a, std::uint64_t b);

// Which sample to fetch, and the stream of its random numbers.
struct Draw {
  Draw(std::int64_t index_, std::uint64_t stream_ = 0)
      : index(index_), stream(stream_) {}  // NOLINT: implicit
  std::int64_t index;
  std::uint64_t stream;
};

// Samples by index. The loader calls get() and get_batch() from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Throws IndexError unless 0 <= index < size().
  virtual Sample get(Draw draw) const = 0;
  // The samples in the given order, stacked. The default calls get() for each; array data overrides it with a
  // gather.
  virtual Batch get_batch(std::span<const Draw> draws) const;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

// Stacks samples field by field into fresh host memory. Throws ShapeError or DTypeError naming the field when
// samples differ.
Batch stack_samples(std::span<const Sample> samples);

// ---- data sets in memory

// Arrays whose first axis counts the samples.
class TensorDataset : public Dataset {
 public:
  // Throws ShapeError unless there is at least one array and all have the same first size.
  explicit TensorDataset(std::vector<Tensor> fields);
  std::int64_t size() const override { return size_; }
  Sample get(Draw draw) const override;
  Batch get_batch(std::span<const Draw> draws) const override;
  const std::vector<Tensor>& fields() const { return fields_; }

 private:
  std::vector<Tensor> fields_;  // evaluated, in host memory
  std::int64_t size_ = 0;
};

// Images and labels in the IDX files of MNIST and its kin, plain or .gz. Images are (N, 1, rows, columns) u8,
// labels i64. Throws FormatError for files of other ranks or of different counts.
class IdxDataset : public TensorDataset {
 public:
  IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels);
};

// The four files of MNIST in one folder, under their usual names, with or without .gz. Throws FileError.
std::shared_ptr<IdxDataset> mnist(const std::filesystem::path& folder, bool train);
// True iff mnist(folder, ...) would find its files.
bool has_mnist(const std::filesystem::path& folder);

// Numbers in a CSV file: fields {features f32 (N, F), targets}. Targets are the named columns, f32 (N, T);
// one target column alone gives shape (N), and i64 when `class_target`. Without target columns there is one
// field.
struct CsvDatasetOptions {
  bool header = true;
  char separator = ',';
  std::vector<std::int64_t> target_columns{};  // negative ones count from the end
  bool class_target = false;
};
class CsvDataset : public TensorDataset {
 public:
  explicit CsvDataset(const std::filesystem::path& path, const CsvDatasetOptions& options = {});
};

// Files of fixed-size binary records: `label_bytes` label bytes (the last one counts), then an image of
// bytes. The defaults are CIFAR-10's. Fields: images u8, labels i64.
struct RecordDatasetOptions {
  std::int64_t label_bytes = 1;
  Shape image{3, 32, 32};
};
class RecordDataset : public TensorDataset {
 public:
  explicit RecordDataset(const std::vector<std::filesystem::path>& files,
                         const RecordDatasetOptions& options = {});
};

// ---- data sets made of others

// The given samples of another data set, in that order; a sample may occur more than once.
class Subset : public Dataset {
 public:
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Sample get(Draw draw) const override;
  Batch get_batch(std::span<const Draw> draws) const override;
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

// One data set after another.
class Concat : public Dataset {
 public:
  explicit Concat(std::vector<DatasetPtr> datasets);
  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Sample get(Draw draw) const override;
  Batch get_batch(std::span<const Draw> draws) const override;

 private:
  std::size_t part_of(std::int64_t index) const;
  std::vector<DatasetPtr> datasets_;
  std::vector<std::int64_t> ends_;  // ends_[i] = samples in the data sets up to and including i
};

// Disjoint random subsets. `lengths` must add up to the size. Throws ValueError.
std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  std::uint64_t seed = 0);

// A change made to one field of every sample. `batch` is (N, ...) in host memory; sample i may draw from
// randoms[i] and from nothing else, and must not depend on its neighbours. Called from several threads at
// once.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const = 0;
};
using TransformPtr = std::shared_ptr<const Transform>;

// f32 of any numbers, times `scale`.
TransformPtr to_float(double scale = 1.0 / 255);
// (x - mean[channel]) / deviation[channel] in f32; channels are axis 1 of the batch. One value stands for
// all.
TransformPtr normalize(std::vector<double> mean, std::vector<double> deviation);
// A window of (height, width) at a random place of the image with `padding` zeros around it. Images (C, H,
// W).
TransformPtr random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0);
TransformPtr center_crop(std::int64_t height, std::int64_t width);
TransformPtr random_horizontal_flip(double p = 0.5);
TransformPtr random_vertical_flip(double p = 0.5);
// Sets a random square of `side` pixels (cut off at the border) to `value`, with probability p.
TransformPtr random_erase(std::int64_t side, double p = 0.5, double value = 0.0);
// Adds normal noise; f32 only.
TransformPtr gaussian_noise(double deviation);
// A function of one sample's field.
TransformPtr transform(std::function<Tensor(const Tensor& x, SampleRandom& random)> function);

// Another data set with transforms applied, in order, to one field.
class MapDataset : public Dataset {
 public:
  MapDataset(DatasetPtr dataset, std::vector<TransformPtr> transforms, std::size_t field = 0);
  std::int64_t size() const override { return dataset_->size(); }
  Sample get(Draw draw) const override;
  Batch get_batch(std::span<const Draw> draws) const override;

 private:
  DatasetPtr dataset_;
  std::vector<TransformPtr> transforms_;
  std::size_t field_;
};

// ---- samplers: the order of an epoch, a function of (seed, epoch) alone

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const = 0;
};
using SamplerPtr = std::shared_ptr<const Sampler>;

class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t count);
  std::int64_t size() const override { return count_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;

 private:
  std::int64_t count_;
};

// A permutation; or `samples` draws with replacement.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t count);
  RandomSampler(std::int64_t count, std::int64_t samples);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;

 private:
  std::int64_t count_, samples_;
  bool replacement_;
};

// Index i with probability weights[i] / sum, with or without replacement. Throws ValueError for a negative or
// NaN weight, a zero sum, or (without replacement) fewer positive weights than samples.
class WeightedSampler : public Sampler {
 public:
  WeightedSampler(std::vector<double> weights, std::int64_t samples, bool replacement = true);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;

 private:
  std::vector<double> weights_;
  std::int64_t samples_;
  bool replacement_;
};

// The share of one of `count` processes: every count-th index of another sampler, from `rank` on. All shares
// have the same length: the order starts again from its beginning where it does not divide.
class ShardSampler : public Sampler {
 public:
  ShardSampler(SamplerPtr sampler, std::int64_t rank, std::int64_t count);
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;

 private:
  SamplerPtr sampler_;
  std::int64_t rank_, count_;
};

// Which samples make up each batch of an epoch.
class BatchSampler {
 public:
  BatchSampler(SamplerPtr sampler, std::int64_t batch_size, bool drop_last = false);
  virtual ~BatchSampler() = default;
  virtual std::int64_t size() const;  // batches per epoch
  virtual std::vector<std::vector<std::int64_t>> batches(std::uint64_t seed, std::uint64_t epoch) const;

 private:
  SamplerPtr sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

// ---- loader

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  int workers = 0;          // threads that prepare batches; 0 prepares them in the calling thread
  int prefetch_factor = 2;  // batches prepared ahead, per worker
  std::uint64_t seed = 0;
  // Batches are copied there as soon as they are prepared; with workers, while the device computes with
  // earlier ones. None: they stay in host memory.
  std::optional<Device> device{};
  // In place of `shuffle`; with `batch_sampler`, batch_size and drop_last are not used either.
  SamplerPtr sampler{};
  std::shared_ptr<const BatchSampler> batch_sampler{};
  // In place of get_batch(); called from several threads at once.
  std::function<Batch(std::span<const Sample>)> collate{};
};

// Where a loader stands: enough to see the same batches again from there on.
struct DataLoaderState {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::int64_t position = 0;  // batches of this epoch already handed out
  std::int64_t batches = 0;   // of an epoch; a guard against resuming with other data or another batch size
};

// Batches of a data set, epoch after epoch.
//
//   for (const Batch& batch : loader) ...     // one epoch, or what is left of it after a state was loaded
//
// One thread at a time may use a loader. An exception thrown by the data set in a worker is rethrown by the
// next() that would have returned that batch; a further next() tries the batch again. The destructor waits
// only for the batches being prepared at that moment.
class DataLoader {
 public:
  DataLoader(DatasetPtr dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  const Dataset& dataset() const;
  std::int64_t size() const;      // batches per epoch
  std::uint64_t epoch() const;    // counted from 0
  std::int64_t position() const;  // batches of this epoch already handed out

  // The next batch. At the end of the epoch nothing, once; the call after that begins the next epoch.
  std::optional<Batch> next();
  // Back to the beginning of the current epoch.
  void restart();

  DataLoaderState state_dict() const;
  // Throws ValueError when the state is of a loader with another number of batches.
  void load_state_dict(const DataLoaderState& state);

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    reference operator*() const { return *batch_; }
    pointer operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return !a.batch_; }

   private:
    friend class DataLoader;
    explicit Iterator(DataLoader& loader) : loader_(&loader), batch_(loader.next()) {}
    DataLoader* loader_;
    std::optional<Batch> batch_;
  };
  // Goes on from position(): a loop that was left early is continued, not begun again (restart() does that).
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth::data
