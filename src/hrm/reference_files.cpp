// Files of the reference implementation: its data sets and its checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/hrm_data.h"
#include "hearth/io.h"
#include "hrm/random_source.h"
#include "io/parse_json.h"

namespace hearth::hrm {
namespace {

// One set of a data set: examples of puzzles of groups, each with the numbers where the next ones begin.
struct Set {
  std::vector<std::int32_t> inputs, labels;  // examples one after the other
  std::vector<std::int32_t> puzzle_ids;
  std::vector<std::int64_t> puzzle_starts, group_starts;
};

class ReferenceSource : public ExampleSource {
 public:
  ReferenceSource(Set set, std::size_t length, std::uint64_t seed)
      : set_(std::move(set)), length_(length), seed_(seed) {}

  // As the reference does it: a group, one of its puzzles (they are versions of each other), one of its
  // examples.
  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override {
    RandomSource random(seed_, static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(row));
    const auto within = [&](const std::vector<std::int64_t>& starts, std::size_t i) {
      return static_cast<std::size_t>(starts[i] +
                                      random.below(static_cast<std::uint32_t>(starts[i + 1] - starts[i])));
    };
    const std::size_t group = random.below(static_cast<std::uint32_t>(set_.group_starts.size() - 1));
    const std::size_t number = within(set_.group_starts, group);
    const std::size_t example = within(set_.puzzle_starts, number);
    puzzle = set_.puzzle_ids[number];
    std::copy_n(set_.inputs.begin() + static_cast<std::ptrdiff_t>(example * length_), length_,
                tokens.begin());
    std::copy_n(set_.labels.begin() + static_cast<std::ptrdiff_t>(example * length_), length_,
                labels.begin());
  }

 private:
  Set set_;
  std::size_t length_;
  std::uint64_t seed_;
};

class DataReader {
 public:
  explicit DataReader(const std::filesystem::path& folder) : folder_(folder) {}

  ReferenceData read(std::uint64_t seed) {
    const auto path = folder_ / "dataset.json";
    const auto json = io::parse_json(read_text_file(path), path.string());
    if (!json.is_object()) fail("dataset.json is not a JSON object");
    const auto integer = [&](const char* name) {
      if (!json.contains(name) || !json[name].is_number_integer())
        fail(fmt::format("dataset.json has no whole number \"{}\"", name));
      return json[name].get<std::int64_t>();
    };
    ReferenceData data;
    data.config = reference_config();
    data.config.vocabulary = integer("vocab_size");
    data.config.length = integer("seq_len");
    data.config.puzzles = integer("num_puzzle_identifiers");
    check(data.config);
    std::optional<std::int64_t> ignored;
    if (json.contains("ignore_label_id") && !json["ignore_label_id"].is_null())
      ignored = integer("ignore_label_id");
    if (!json.contains("sets") || !json["sets"].is_array() || json["sets"].size() != 1 ||
        !json["sets"][0].is_string())
      fail("dataset.json must name one set");
    const std::string name = json["sets"][0];
    if (name.empty() || name.find_first_of("/\\") != std::string::npos)
      fail("the name of the set is not a file's");

    Set set;
    set.inputs = examples(name, "inputs", data.config);
    set.labels = examples(name, "labels", data.config);
    if (set.inputs.size() != set.labels.size()) fail("inputs and labels differ in number");
    if (ignored)
      std::replace(set.labels.begin(), set.labels.end(), static_cast<std::int32_t>(*ignored), ignored_label);
    const auto count = static_cast<std::int64_t>(set.inputs.size()) / data.config.length;
    for (const std::int64_t id : numbers(name, "puzzle_identifiers")) {
      if (id < 0 || id >= data.config.puzzles)
        fail(fmt::format("puzzle identifier {} of {}", id, data.config.puzzles));
      set.puzzle_ids.push_back(static_cast<std::int32_t>(id));
    }
    set.puzzle_starts = starts(name, "puzzle_indices", count);
    if (set.puzzle_starts.size() != set.puzzle_ids.size() + 1)
      fail("puzzle_indices must be one more than puzzles");
    set.group_starts = starts(name, "group_indices", static_cast<std::int64_t>(set.puzzle_ids.size()));
    data.examples = count;
    data.puzzles = static_cast<std::int64_t>(set.puzzle_ids.size());
    data.groups = static_cast<std::int64_t>(set.group_starts.size()) - 1;
    data.source =
        std::make_shared<ReferenceSource>(std::move(set), static_cast<std::size_t>(data.config.length), seed);
    return data;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(fmt::format("[load_reference_data] {}: {}", folder_.string(), what));
  }

  Tensor array(const std::string& set, const char* field) const {
    const Tensor tensor = load_npy(folder_ / fmt::format("{}__{}.npy", set, field));
    if (is_floating(tensor.dtype())) fail(fmt::format("{} are not whole numbers", field));
    return tensor;
  }
  std::vector<std::int64_t> numbers(const std::string& set, const char* field) const {
    const Tensor tensor = array(set, field);
    if (tensor.ndim() != 1)
      fail(fmt::format("{} must have one axis, not {}", field, to_string(tensor.shape())));
    return tensor.to_vector<std::int64_t>();
  }
  std::vector<std::int32_t> examples(const std::string& set, const char* field,
                                     const HrmConfig& config) const {
    const Tensor tensor = array(set, field);
    if (tensor.ndim() != 2 || tensor.size(1) != config.length)
      fail(fmt::format("{} {} are not (examples, {})", field, to_string(tensor.shape()), config.length));
    const auto values = tensor.to_vector<std::int64_t>();
    std::vector<std::int32_t> result;
    result.reserve(values.size());
    for (const std::int64_t value : values) {
      if (value < 0 || value >= config.vocabulary)
        fail(fmt::format("token {} in {}, of a vocabulary of {}", value, field, config.vocabulary));
      result.push_back(static_cast<std::int32_t>(value));
    }
    return result;
  }
  // Rising from 0 to `end`.
  std::vector<std::int64_t> starts(const std::string& set, const char* field, std::int64_t end) const {
    auto values = numbers(set, field);
    if (values.size() < 2 || values.front() != 0 || values.back() != end)
      fail(fmt::format("{} must begin with 0 and end with {}", field, end));
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i] <= values[i - 1]) fail(fmt::format("{} must rise", field));
    return values;
  }

  std::filesystem::path folder_;
};

// The longest of the prefixes that a checkpoint's names may have.
std::string without_prefix(const std::string& name) {
  for (const std::string_view prefix : {"_orig_mod.model.inner.", "model.inner.", "inner."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

std::int64_t known_length(std::int64_t vocabulary) {
  if (vocabulary == 11) return 81;                      // Sudoku
  if (vocabulary == 6 || vocabulary == 12) return 900;  // mazes, ARC
  throw ValueError(
      fmt::format("[import_checkpoint] the length of sequences must be given: the vocabulary of {} is not "
                  "one of the published models'",
                  vocabulary));
}

}  // namespace

ReferenceData load_reference_data(const std::filesystem::path& folder, std::uint64_t seed) {
  return DataReader(folder).read(seed);
}

std::shared_ptr<Hrm> import_checkpoint(const std::filesystem::path& path, const ImportOptions& options) {
  StateDict state;
  for (auto& [name, tensor] : load_torch(path)) state[without_prefix(name)] = tensor;
  const auto shape = [&](const std::string& name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.ndim() != 2)
      throw FormatError(
          fmt::format("[import_checkpoint] {}: no matrix \"{}\": not a checkpoint of a reasoning model",
                      path.string(), name));
    return found->second.shape();
  };
  const auto layers = [&](const std::string& level) {
    std::int64_t count = 0;
    while (state.contains(fmt::format("{}.layers.{}.self_attn.qkv_proj.weight", level, count))) ++count;
    return count;
  };
  HrmConfig config = reference_config();
  config.vocabulary = shape("embed_tokens.embedding_weight")[0];
  config.features = shape("embed_tokens.embedding_weight")[1];
  config.prefix = 0;
  if (state.contains("puzzle_emb.weights")) {
    config.puzzles = shape("puzzle_emb.weights")[0];
    config.prefix = shape("puzzle_emb.weights")[1] / std::max<std::int64_t>(config.features, 1);
  }
  config.h_layers = layers("H_level");
  config.l_layers = layers("L_level");
  config.shared = config.h_layers == 0;
  const std::int64_t inner = shape("L_level.layers.0.mlp.down_proj.weight")[1];
  config.expansion = 1.5 * static_cast<double>(inner) / static_cast<double>(config.features);
  if (config.inner_features() == reference_config().inner_features() &&
      config.features == reference_config().features)
    config.expansion = reference_config().expansion;
  config.heads = options.heads > 0 ? options.heads : std::max<std::int64_t>(config.features / 64, 1);
  config.h_cycles = options.h_cycles;
  config.l_cycles = options.l_cycles;
  if (state.contains("embed_pos.embedding_weight")) {
    config.positions = Positions::learned;
    config.length = shape("embed_pos.embedding_weight")[0] - config.prefix;
  } else {
    config.length = options.length > 0 ? options.length : known_length(config.vocabulary);
  }
  const auto model = std::make_shared<Hrm>(config);
  model->load_state_dict(state);
  model->eval();
  return model;
}

}  // namespace hearth::hrm
