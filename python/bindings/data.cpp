// Data sets, samplers, transforms and the loader.
#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>

#include <atomic>

#include "loader.h"

namespace hearth::python {
namespace {

using namespace data;

// Any Python object with __len__ and __getitem__. The loader's threads call it, one at a time, under the GIL.
class PythonDataset : public Dataset {
 public:
  explicit PythonDataset(nb::object object) : object_(std::move(object)) {}
  ~PythonDataset() override {
    if (!Py_IsInitialized()) {
      object_.release();
      return;
    }
    const nb::gil_scoped_acquire locked;
    object_.reset();
  }
  PythonDataset(const PythonDataset&) = delete;
  PythonDataset& operator=(const PythonDataset&) = delete;

  std::int64_t size() const override {
    const nb::gil_scoped_acquire locked;
    return static_cast<std::int64_t>(nb::len(object_));
  }

  Sample get(Draw draw) const override {
    const nb::gil_scoped_acquire locked;
    const nb::object item = object_[draw.index];
    const bool several = nb::isinstance<nb::tuple>(item) || nb::isinstance<nb::list>(item);
    bare_ = !several;
    Sample sample;
    const auto add = [&](nb::handle field) {
      In in;
      if (!in.read(field))
        throw nb::type_error("a sample is a tensor, an array or a number, or a tuple of them");
      // A number is a tensor of its own dtype here.
      const Tensor host = (*in).to(Device{});
      sample.push_back(host.detach());
    };
    if (several)
      for (const nb::handle field : nb::iter(item)) add(field);
    else
      add(item);
    return sample;
  }

  bool bare() const { return bare_; }

 private:
  nb::object object_;
  mutable std::atomic<bool> bare_ = false;  // samples are single values, not tuples
};

}  // namespace

// Its threads may wait for the GIL, so it is not held while they end.
Loader::~Loader() {
  const nb::gil_scoped_release unlocked;
  const DataLoader ending = std::move(*this);
}

namespace {

nb::object batch_object(const DataLoader& loader, const Batch& batch) {
  const auto* python = dynamic_cast<const PythonDataset*>(&loader.dataset());
  if (python && python->bare() && batch.size() == 1) return nb::cast(batch[0]);
  return nb::cast(batch);
}

}  // namespace

void bind_data(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_data", "Data sets, samplers, transforms and the loader.");

  nb::class_<Dataset>(m, "CoreDataset", "Samples by index, prepared without Python.")
      .def("__len__", &Dataset::size)
      .def(
          "__getitem__",
          [](const Dataset& self, std::int64_t index) {
            if (index < 0) index += self.size();
            std::vector<Tensor> sample;
            {
              const nb::gil_scoped_release unlocked;
              sample = self.get(index);
            }
            return nb::tuple(nb::cast(sample));
          },
          "index"_a);
  nb::class_<PythonDataset, Dataset>(m, "PythonDataset").def(nb::init<nb::object>(), "dataset"_a);
  nb::class_<TensorDataset, Dataset>(m, "TensorDataset", "Arrays whose first axis counts the samples.")
      .def(
          "__init__",
          [](TensorDataset* self, const nb::args& fields) {
            std::vector<Tensor> tensors;
            for (const nb::handle field : fields) {
              In in;
              if (!in.read(field)) throw nb::type_error("TensorDataset(tensors...)");
              tensors.push_back(*in);
            }
            new (self) TensorDataset(std::move(tensors));
          },
          "tensors"_a)
      .def_prop_ro("tensors", &TensorDataset::fields);
  nb::class_<IdxDataset, TensorDataset>(m, "IdxDataset",
                                        "Images and labels in the IDX files of MNIST and its kin.")
      .def(nb::init<std::filesystem::path, std::filesystem::path>(), "images"_a, "labels"_a,
           nb::call_guard<nb::gil_scoped_release>());
  m.def("mnist", &mnist, "folder"_a, "train"_a = true,
        "The files of MNIST in a folder, with or without .gz.");
  m.def("has_mnist", &has_mnist, "folder"_a);
  nb::class_<CsvDataset, TensorDataset>(m, "CsvDataset",
                                        "Numbers in a CSV file: features, and target columns.")
      .def(
          "__init__",
          [](CsvDataset* self, const std::filesystem::path& path, bool header, const std::string& separator,
             const std::vector<std::int64_t>& target_columns, bool class_target) {
            if (separator.size() != 1) throw ValueError("[CsvDataset] the separator is one character");
            new (self) CsvDataset(path, {header, separator[0], target_columns, class_target});
          },
          "path"_a, "header"_a = true, "separator"_a = ",", "target_columns"_a = std::vector<std::int64_t>(),
          "class_target"_a = false);
  nb::class_<RecordDataset, TensorDataset>(m, "RecordDataset", "Files of fixed-size records, as of CIFAR-10.")
      .def(
          "__init__",
          [](RecordDataset* self, const std::vector<std::filesystem::path>& files, std::int64_t label_bytes,
             const Shape& image) {
            new (self) RecordDataset(files, {label_bytes, image});
          },
          "files"_a, "label_bytes"_a = 1, "image"_a = Shape{3, 32, 32});
  nb::class_<Subset, Dataset>(m, "Subset", "The given samples of another data set.")
      .def(nb::init<DatasetPtr, std::vector<std::int64_t>>(), "dataset"_a, "indices"_a)
      .def_prop_ro("indices", &Subset::indices);
  nb::class_<Concat, Dataset>(m, "ConcatDataset", "One data set after another.")
      .def(nb::init<std::vector<DatasetPtr>>(), "datasets"_a);
  m.def("random_split", &random_split, "dataset"_a, "lengths"_a, "seed"_a = 0, "Disjoint random subsets.");

  nb::class_<Transform>(m, "Transform", "A change made to one field of every sample.");
  m.def("to_float", &to_float, "scale"_a = 1.0 / 255, "float32, times scale.");
  m.def("normalize", &normalize, "mean"_a, "std"_a, "(x - mean[channel]) / std[channel].");
  m.def("random_crop", &random_crop, "height"_a, "width"_a, "padding"_a = 0);
  m.def("center_crop", &center_crop, "height"_a, "width"_a);
  m.def("random_horizontal_flip", &random_horizontal_flip, "p"_a = 0.5);
  m.def("random_vertical_flip", &random_vertical_flip, "p"_a = 0.5);
  m.def("random_erase", &random_erase, "side"_a, "p"_a = 0.5, "value"_a = 0.0);
  m.def("gaussian_noise", &gaussian_noise, "std"_a);
  nb::class_<MapDataset, Dataset>(m, "MapDataset", "Another data set with transforms applied to one field.")
      .def(nb::init<DatasetPtr, std::vector<TransformPtr>, std::size_t>(), "dataset"_a, "transforms"_a,
           "field"_a = 0);

  nb::class_<Sampler>(m, "Sampler", "The order of an epoch.")
      .def("__len__", &Sampler::size)
      .def("order", &Sampler::order, "seed"_a, "epoch"_a);
  nb::class_<SequentialSampler, Sampler>(m, "SequentialSampler").def(nb::init<std::int64_t>(), "count"_a);
  nb::class_<RandomSampler, Sampler>(m, "RandomSampler", "A permutation; or draws with replacement.")
      .def(nb::init<std::int64_t>(), "count"_a)
      .def(nb::init<std::int64_t, std::int64_t>(), "count"_a, "num_samples"_a);
  nb::class_<WeightedSampler, Sampler>(m, "WeightedRandomSampler")
      .def(nb::init<std::vector<double>, std::int64_t, bool>(), "weights"_a, "num_samples"_a,
           "replacement"_a = true);
  nb::class_<ShardSampler, Sampler>(m, "DistributedSampler", "The share of one of several processes.")
      .def(nb::init<SamplerPtr, std::int64_t, std::int64_t>(), "sampler"_a, "rank"_a, "num_replicas"_a);
  nb::class_<BatchSampler>(m, "BatchSampler")
      .def(nb::init<SamplerPtr, std::int64_t, bool>(), "sampler"_a, "batch_size"_a, "drop_last"_a = false)
      .def("__len__", &BatchSampler::size);

  using Collate = std::function<std::vector<Tensor>(std::vector<Sample>)>;
  nb::class_<Loader>(m, "CoreLoader")
      .def(
          "__init__",
          [](Loader* self, DatasetPtr dataset, std::int64_t batch_size, bool shuffle, bool drop_last,
             int workers, int prefetch_factor, std::uint64_t seed, const std::optional<DeviceIn>& device,
             SamplerPtr sampler, std::shared_ptr<const BatchSampler> batch_sampler,
             const std::optional<Collate>& collate) {
            DataLoaderOptions options;
            options.batch_size = batch_size;
            options.shuffle = shuffle;
            options.drop_last = drop_last;
            options.workers = workers;
            options.prefetch_factor = prefetch_factor;
            options.seed = seed;
            if (device) options.device = Device(*device);
            options.sampler = std::move(sampler);
            options.batch_sampler = std::move(batch_sampler);
            if (collate)
              options.collate = [function = *collate](std::span<const Sample> samples) {
                return function({samples.begin(), samples.end()});
              };
            new (self) Loader(std::move(dataset), std::move(options));
          },
          "dataset"_a, "batch_size"_a, "shuffle"_a, "drop_last"_a, "workers"_a, "prefetch_factor"_a, "seed"_a,
          "device"_a.none(), "sampler"_a.none(), "batch_sampler"_a.none(), "collate"_a.none())
      .def("__len__", [](const Loader& self) { return self.size(); })
      .def_prop_ro("epoch", [](const Loader& self) { return self.epoch(); })
      .def_prop_ro("position", [](const Loader& self) { return self.position(); })
      .def("next",
           [](Loader& self) -> nb::object {
             std::optional<Batch> batch;
             {
               const nb::gil_scoped_release unlocked;
               batch = self.next();
             }
             return batch ? batch_object(self, *batch) : nb::none();
           })
      .def(
          "restart", [](Loader& self) { self.restart(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("state_dict",
           [](const Loader& self) {
             const DataLoaderState state = self.state_dict();
             nb::dict result;
             result["seed"] = state.seed;
             result["epoch"] = state.epoch;
             result["position"] = state.position;
             result["batches"] = state.batches;
             return result;
           })
      .def(
          "load_state_dict",
          [](Loader& self, const nb::dict& state) {
            const DataLoaderState loaded{
                nb::cast<std::uint64_t>(state["seed"]), nb::cast<std::uint64_t>(state["epoch"]),
                nb::cast<std::int64_t>(state["position"]), nb::cast<std::int64_t>(state["batches"])};
            const nb::gil_scoped_release unlocked;
            self.load_state_dict(loaded);
          },
          "state"_a);
}

}  // namespace hearth::python
