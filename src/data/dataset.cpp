// Data sets in memory and data sets made of others.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "data/host_array.h"
#include "hearth/data.h"

namespace hearth::data {
namespace {

void check_index(std::int64_t index, std::int64_t size, const char* dataset) {
  if (index < 0 || index >= size)
    throw IndexError(fmt::format("[{}] sample {} of a data set of {}", dataset, index, size));
}

// The fields of the only sample of a batch.
Sample only_sample(const Batch& batch) {
  Sample sample;
  for (const Tensor& field : batch) {
    const Tensor host = to_host(field);
    HostArray copy(sample_shape(host.shape()), host.dtype());
    std::memcpy(copy.data(), host_bytes(host).data(), copy.nbytes());
    sample.push_back(std::move(copy).to_tensor());
  }
  return sample;
}

}  // namespace

Batch stack_samples(std::span<const Sample> samples) {
  if (samples.empty()) throw ValueError("[stack_samples] no samples");
  const std::size_t fields = samples[0].size();
  Batch batch;
  for (std::size_t f = 0; f < fields; ++f) {
    const Shape& shape = samples[0][f].shape();
    const DType dtype = samples[0][f].dtype();
    HostArray array(batch_shape(static_cast<std::int64_t>(samples.size()), shape), dtype);
    std::byte* out = array.data();
    for (const Sample& sample : samples) {
      if (sample.size() != fields)
        throw ShapeError(
            fmt::format("[stack_samples] samples of {} and of {} fields", fields, sample.size()));
      if (!(sample[f].shape() == shape))
        throw ShapeError(fmt::format(
            "[stack_samples] field {}: shapes {} and {} differ; give the loader a collate function", f,
            to_string(shape), to_string(sample[f].shape())));
      if (sample[f].dtype() != dtype)
        throw DTypeError(fmt::format("[stack_samples] field {}: dtypes {} and {} differ", f,
                                     dtype_name(dtype), dtype_name(sample[f].dtype())));
      const Tensor host = to_host(sample[f]);
      const auto bytes = host_bytes(host);
      std::memcpy(out, bytes.data(), bytes.size());
      out += bytes.size();
    }
    batch.push_back(std::move(array).to_tensor());
  }
  return batch;
}

Batch Dataset::get_batch(std::span<const Draw> draws) const {
  std::vector<Sample> samples;
  samples.reserve(draws.size());
  for (const Draw& draw : draws) samples.push_back(get(draw));
  return stack_samples(samples);
}

// ---- TensorDataset

TensorDataset::TensorDataset(std::vector<Tensor> fields) {
  if (fields.empty()) throw ShapeError("[TensorDataset] no arrays");
  for (const Tensor& field : fields) {
    if (field.ndim() == 0) throw ShapeError("[TensorDataset] an array has no first axis to count samples");
    if (field.size(0) != fields[0].size(0))
      throw ShapeError(
          fmt::format("[TensorDataset] arrays of {} and of {} samples", fields[0].size(0), field.size(0)));
    fields_.push_back(to_host(field).contiguous().eval());  // workers read it all at once
  }
  size_ = fields_[0].size(0);
}

Batch TensorDataset::get_batch(std::span<const Draw> draws) const {
  for (const Draw& draw : draws) check_index(draw.index, size_, "TensorDataset");
  Batch batch;
  for (const Tensor& field : fields_) {
    HostArray array(batch_shape(static_cast<std::int64_t>(draws.size()), sample_shape(field.shape())),
                    field.dtype());
    const std::byte* in = host_bytes(field).data();
    const std::size_t row = size_ == 0 ? 0 : field.nbytes() / static_cast<std::size_t>(size_);
    std::byte* out = array.data();
    for (const Draw& draw : draws) {
      std::memcpy(out, in + static_cast<std::size_t>(draw.index) * row, row);
      out += row;
    }
    batch.push_back(std::move(array).to_tensor());
  }
  return batch;
}

Sample TensorDataset::get(Draw draw) const { return only_sample(get_batch({&draw, 1})); }

// ---- Subset

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  for (const std::int64_t index : indices_) check_index(index, dataset_->size(), "Subset");
}

Sample Subset::get(Draw draw) const {
  check_index(draw.index, size(), "Subset");
  return dataset_->get({indices_[static_cast<std::size_t>(draw.index)], draw.stream});
}

Batch Subset::get_batch(std::span<const Draw> draws) const {
  std::vector<Draw> inner;
  inner.reserve(draws.size());
  for (const Draw& draw : draws) {
    check_index(draw.index, size(), "Subset");
    inner.emplace_back(indices_[static_cast<std::size_t>(draw.index)], draw.stream);
  }
  return dataset_->get_batch(inner);
}

// ---- Concat

Concat::Concat(std::vector<DatasetPtr> datasets) : datasets_(std::move(datasets)) {
  std::int64_t end = 0;
  for (const DatasetPtr& dataset : datasets_) ends_.push_back(end += dataset->size());
}

std::size_t Concat::part_of(std::int64_t index) const {
  check_index(index, size(), "Concat");
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
}

Sample Concat::get(Draw draw) const {
  const std::size_t part = part_of(draw.index);
  return datasets_[part]->get({draw.index - (part == 0 ? 0 : ends_[part - 1]), draw.stream});
}

Batch Concat::get_batch(std::span<const Draw> draws) const {
  // A batch from one part keeps its fast path; a mixed one is fetched part by part and put back in order.
  std::vector<std::vector<Draw>> inner(datasets_.size());
  std::vector<std::vector<std::size_t>> places(datasets_.size());
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const std::size_t part = part_of(draws[i].index);
    inner[part].emplace_back(draws[i].index - (part == 0 ? 0 : ends_[part - 1]), draws[i].stream);
    places[part].push_back(i);
  }
  for (std::size_t part = 0; part < inner.size(); ++part)
    if (inner[part].size() == draws.size()) return datasets_[part]->get_batch(inner[part]);

  std::vector<Sample> samples(draws.size());
  for (std::size_t part = 0; part < inner.size(); ++part)
    for (std::size_t i = 0; i < inner[part].size(); ++i)
      samples[places[part][i]] = datasets_[part]->get(inner[part][i]);
  return stack_samples(samples);
}

// ---- random_split

std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  std::uint64_t seed) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0) throw ValueError(fmt::format("[random_split] length {} is negative", length));
    total += length;
  }
  if (total != dataset->size())
    throw ValueError(fmt::format("[random_split] lengths add up to {}, the data set has {} samples", total,
                                 dataset->size()));
  const std::vector<std::int64_t> order = RandomSampler(total).order(seed, 0);
  std::vector<std::shared_ptr<Subset>> parts;
  auto first = order.begin();
  for (const std::int64_t length : lengths) {
    parts.push_back(std::make_shared<Subset>(dataset, std::vector<std::int64_t>(first, first + length)));
    first += length;
  }
  return parts;
}

// ---- MapDataset

MapDataset::MapDataset(DatasetPtr dataset, std::vector<TransformPtr> transforms, std::size_t field)
    : dataset_(std::move(dataset)), transforms_(std::move(transforms)), field_(field) {}

Batch MapDataset::get_batch(std::span<const Draw> draws) const {
  // The inner data set gets streams of its own, so that two MapDatasets in a row do not draw the same
  // numbers.
  std::vector<Draw> inner;
  std::vector<SampleRandom> randoms;
  for (const Draw& draw : draws) {
    inner.emplace_back(draw.index, combine_streams(draw.stream, 1));
    randoms.emplace_back(draw.stream);
  }
  Batch batch = dataset_->get_batch(inner);
  if (field_ >= batch.size())
    throw IndexError(fmt::format("[MapDataset] field {} of samples of {} fields", field_, batch.size()));
  Tensor x = to_host(batch[field_]);
  for (const TransformPtr& transform : transforms_) x = to_host(transform->apply(x, randoms));
  batch[field_] = x;
  return batch;
}

Sample MapDataset::get(Draw draw) const { return only_sample(get_batch({&draw, 1})); }

}  // namespace hearth::data
