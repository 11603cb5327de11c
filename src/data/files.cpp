// Data sets read from files.
#include <fmt/format.h>

#include <algorithm>

#include "hearth/data.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "hearth/ops.h"

namespace hearth::data {
namespace {

std::vector<Tensor> read_idx_pair(const std::filesystem::path& images_path,
                                  const std::filesystem::path& labels_path) {
  const Tensor images = load_idx(images_path);
  const Tensor labels = load_idx(labels_path);
  if (images.ndim() != 3)
    throw FormatError(fmt::format("{}: images have 3 axes, this array has shape {}", images_path.string(),
                                  to_string(images.shape())));
  if (labels.ndim() != 1 || !is_integral(labels.dtype()))
    throw FormatError(fmt::format("{}: labels are integers with 1 axis, this array is {} of shape {}",
                                  labels_path.string(), dtype_name(labels.dtype()),
                                  to_string(labels.shape())));
  if (images.size(0) != labels.size(0))
    throw FormatError(fmt::format("{} has {} images, {} has {} labels", images_path.string(), images.size(0),
                                  labels_path.string(), labels.size(0)));
  return {images.reshape({images.size(0), 1, images.size(1), images.size(2)}), labels.to(DType::i64)};
}

// `name` in `folder`, plain or compressed.
std::optional<std::filesystem::path> find_plain_or_gz(const std::filesystem::path& folder,
                                                      const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (std::filesystem::is_regular_file(folder / (name + ending))) return folder / (name + ending);
  return std::nullopt;
}

std::filesystem::path require_file(const std::filesystem::path& folder, const std::string& name) {
  if (auto found = find_plain_or_gz(folder, name)) return *found;
  throw FileError(fmt::format("{}: no file {} or {}.gz", folder.string(), name, name));
}

std::vector<Tensor> read_csv_fields(const std::filesystem::path& path, const CsvDatasetOptions& options) {
  const CsvTable table(path, {.separator = options.separator, .header = options.header});
  const auto columns = static_cast<std::int64_t>(table.columns());
  std::vector<std::size_t> targets, features;
  for (const std::int64_t column : options.target_columns) {
    const std::int64_t from_start = column < 0 ? column + columns : column;
    if (from_start < 0 || from_start >= columns)
      throw IndexError(fmt::format("[CsvDataset] target column {} of {} columns", column, columns));
    targets.push_back(static_cast<std::size_t>(from_start));
  }
  for (std::size_t column = 0; column < table.columns(); ++column)
    if (std::find(targets.begin(), targets.end(), column) == targets.end()) features.push_back(column);
  if (options.class_target && targets.size() != 1)
    throw ValueError(fmt::format("[CsvDataset] class_target with {} target columns", targets.size()));

  std::vector<Tensor> fields;
  if (!features.empty()) fields.push_back(table.numbers(features));
  if (!targets.empty()) {
    Tensor target = table.numbers(targets, options.class_target ? DType::i64 : DType::f32);
    fields.push_back(targets.size() == 1 ? target.reshape({-1}) : target);
  }
  return fields;
}

std::vector<Tensor> read_record_fields(const std::vector<std::filesystem::path>& files,
                                       const RecordDatasetOptions& options) {
  if (files.empty()) throw ValueError("[RecordDataset] no files");
  if (options.label_bytes < 1)
    throw ValueError(fmt::format("[RecordDataset] {} label bytes", options.label_bytes));
  std::vector<Tensor> images, labels;
  for (const auto& file : files) {
    const Records records = load_records(file, options.label_bytes, options.image);
    images.push_back(records.items);
    labels.push_back(select(records.labels, 1, options.label_bytes - 1).to(DType::i64));
  }
  return {files.size() == 1 ? images[0] : concat(images), files.size() == 1 ? labels[0] : concat(labels)};
}

}  // namespace

IdxDataset::IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels)
    : TensorDataset(read_idx_pair(images, labels)) {}

std::shared_ptr<IdxDataset> mnist(const std::filesystem::path& folder, bool train) {
  const std::string prefix = train ? "train" : "t10k";
  return std::make_shared<IdxDataset>(require_file(folder, prefix + "-images-idx3-ubyte"),
                                      require_file(folder, prefix + "-labels-idx1-ubyte"));
}

bool has_mnist(const std::filesystem::path& folder) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"})
    if (!find_plain_or_gz(folder, name)) return false;
  return true;
}

CsvDataset::CsvDataset(const std::filesystem::path& path, const CsvDatasetOptions& options)
    : TensorDataset(read_csv_fields(path, options)) {}

RecordDataset::RecordDataset(const std::vector<std::filesystem::path>& files,
                             const RecordDatasetOptions& options)
    : TensorDataset(read_record_fields(files, options)) {}

}  // namespace hearth::data
