// Models to GGUF files, tensor by tensor.
#include "llm/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "hearth/error.h"
#include "hearth/gguf.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "io/tokenizer/gguf_writer.h"
#include "io/tokenizer/readers.h"
#include "llm/architectures.h"
#include "llm/folder_config.h"
#include "llm/gguf_metadata.h"
#include "llm/importance.h"
#include "llm/refuse.h"
#include "llm/type_mix.h"
#include "llm/weights.h"

namespace hearth::llm {
namespace {

constexpr std::int64_t elements_at_once = 1 << 23;

// What is written, before it is quantised.
struct Source {
  GgufMetadata metadata;
  std::vector<std::string> lost = {};
  std::vector<std::string> names;
  std::function<Tensor(const std::string&)> tensor;
  std::optional<GgufFile> file;  // from which tensors that stay as they are can be copied
  std::int64_t layers = 0;
  std::int64_t rope_size = 0;  // features of a head that are turned
  // By the name of a tensor: of how many heads the rows are put in the order of interleaved pairs; 0: none.
  std::function<std::int64_t(std::string_view)> heads_to_interleave;
};

Source open_file(const std::filesystem::path& path) {
  const GgufFile file(path);
  Source source{.metadata = file.metadata(),
                .names = file.names(),
                .tensor = [file](const std::string& name) { return file.tensor(name); },
                .file = file,
                .layers = 0,
                .rope_size = 0,
                .heads_to_interleave = [](std::string_view) { return std::int64_t{0}; }};
  const auto architecture = file.require<std::string>("general.architecture");
  source.layers = file.get<std::int64_t>(architecture + ".block_count").value_or(0);
  // The parts become one file.
  for (const auto* key : {"split.no", "split.count", "split.tensors.count"})
    if (const auto found = source.metadata.find(key); found != source.metadata.end())
      source.metadata.erase(found);
  return source;
}

Source open_folder(const std::filesystem::path& path) {
  const ModelFile model = open_folder_model(path);
  check_weights(model);  // half a folder should not become a file
  const ModelConfig& c = model.config;
  const Architecture& architecture = find_architecture(c.architecture, FileKind::folder, path);
  const GgufDescription described = describe_for_gguf(c, architecture, path);
  Source source{.metadata = described.metadata,
                .names = model.names(),
                .tensor = {},
                .file = {},
                .layers = c.layers,
                .rope_size = 2 * static_cast<std::int64_t>(c.rope.frequencies.size()),
                .heads_to_interleave = {}};
  for (const auto& [name, factors] : described.factors) source.names.push_back(name);
  source.tensor = [tensor = model.tensor, factors = described.factors](const std::string& name) {
    if (const auto found = factors.find(name); found != factors.end())
      return hearth::tensor<float>(found->second);
    // The gate of the shared expert is a vector there.
    return name.ends_with("ffn_gate_inp_shexp.weight") ? tensor(name).reshape({-1}) : tensor(name);
  };
  const bool interleaves = architecture.gguf_interleaves;
  source.heads_to_interleave = [interleaves, heads = c.heads,
                                groups = c.groups](std::string_view name) -> std::int64_t {
    const auto is = [&](std::string_view part) {
      return name.ends_with(fmt::format(".{}.weight", part)) || name.ends_with(fmt::format(".{}.bias", part));
    };
    return !interleaves ? 0 : is("attn_q") ? heads : is("attn_k") ? groups : 0;
  };
  if (has_tokenizer(path)) {
    const auto tokens = static_cast<std::size_t>(c.vocabulary);
    auto written = tokenizer::to_gguf(tokenizer::read_folder(path, tokens), tokens, architecture.gguf);
    source.metadata.merge(written.metadata);
    source.lost = std::move(written.lost);
  }
  if (!model.chat_template.empty()) source.metadata["tokenizer.chat_template"] = model.chat_template;
  return source;
}

// As rows: of the last axis, or of single elements.
Tensor as_rows(const Tensor& tensor) {
  if (tensor.shape().size() < 2) return tensor.reshape({tensor.numel()});
  const std::int64_t columns = tensor.shape().back();
  return tensor.reshape({columns > 0 ? tensor.numel() / columns : 0, columns});
}

// Where each row comes from, if the first `turned` of a head are i, i + half for each i instead of one half
// after the other.
std::vector<std::int64_t> row_order(std::int64_t rows, std::int64_t heads, std::int64_t turned) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  if (heads == 0) return order;
  const std::int64_t size = rows / heads, half = turned / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t within = row % size;
    if (within < turned) order[static_cast<std::size_t>(row)] = row - within + within % 2 * half + within / 2;
  }
  return order;
}

class Exporter {
 public:
  Exporter(const std::filesystem::path& from, const ExportOptions& options)
      : source_(std::filesystem::is_directory(from) ? open_folder(from) : open_file(from)),
        options_(options) {
    result_.lost = source_.lost;
    plan();
  }

  ExportResult write(const std::filesystem::path& to) {
    std::vector<GgufTensorSpec> specs;
    for (const ExportedTensor& tensor : result_.tensors)
      specs.push_back({tensor.name, tensor.to, tensor.shape});
    GgufWriter writer(to, source_.metadata, specs);
    for (const ExportedTensor& tensor : result_.tensors) {
      result_.finished = copy(tensor, writer);
      if (!result_.finished) return std::move(result_);
    }
    writer.commit();
    return std::move(result_);
  }

 private:
  void plan() {
    const TypeMix* mix = options_.type.empty() ? nullptr : &find_type_mix(options_.type);
    const bool tied = std::ranges::find(source_.names, "output.weight") == source_.names.end();
    for (const auto& name : source_.names) {
      const Tensor tensor = source_.tensor(name);
      ExportedTensor planned{name, tensor.shape(), tensor.dtype(), tensor.dtype(), tensor.dtype(), false};
      const ModelPart part{name, planned.shape, source_.layers, tied};
      if (mix || !is_matrix(part)) planned.wanted = mix ? wanted_type(*mix, part) : DType::f32;
      if (!is_floating(planned.from) && !is_quantised(planned.from)) planned.wanted = planned.from;
      planned.to =
          planned.shape.empty() ? planned.wanted : fitting_type(planned.wanted, planned.shape.back());
      if (is_quantised(planned.from) && is_quantised(planned.to) && planned.to != planned.from &&
          !options_.requantise)
        throw ValueError(
            fmt::format("{} is quantised already, as {}: quantising again loses more than quantising the "
                        "original; --requantize does it all the same",
                        name, dtype_name(planned.from)));
      planned.weighed = options_.importance && is_quantised(planned.to) && planned.to != planned.from &&
                        !options_.importance->of(name, planned.shape.back()).empty();
      const std::int64_t elements = tensor.numel();
      result_.bytes_before += storage_bytes(planned.from, elements);
      result_.bytes_after += storage_bytes(planned.to, elements);
      result_.tensors.push_back(std::move(planned));
    }
    if (!mix && source_.file) return;
    const auto unchanged = [&]() -> const TypeMix& {
      return find_type_mix(dtype_name(source_.tensor("token_embd.weight").dtype()));
    };
    source_.metadata["general.file_type"] = (mix ? *mix : unchanged()).file_type;
    source_.metadata["general.quantization_version"] = std::uint32_t{2};
  }

  bool copy(const ExportedTensor& tensor, GgufWriter& writer) {
    const std::int64_t heads = source_.heads_to_interleave(tensor.name);
    const std::int64_t bytes = storage_bytes(tensor.from, element_count(tensor.shape));
    if (tensor.from == tensor.to && source_.file) {
      writer.write(source_.file->bytes(tensor.name));
      return advance(bytes);
    }
    const NoGrad no_gradients;
    const DeviceScope host{Device{}};
    // Here and not with each part: what is stacked of all experts would be stacked for each.
    const Tensor rows = as_rows(source_.tensor(tensor.name).eval());
    const std::int64_t count = rows.size(0), columns = rows.shape().size() > 1 ? rows.size(1) : 1;
    const std::vector<std::int64_t> order = row_order(count, heads, source_.rope_size);
    const std::vector<float> importance =
        tensor.weighed ? options_.importance->of(tensor.name, columns) : std::vector<float>();
    const std::int64_t step =
        std::max<std::int64_t>(1, elements_at_once / std::max<std::int64_t>(columns, 1));
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(count, begin + step);
      const Tensor wanted =
          hearth::tensor(std::vector<std::int64_t>(order.begin() + begin, order.begin() + end));
      writer.write(converted(take(rows, wanted, 0), tensor, importance).to_bytes());
      if (!advance(bytes * (end - begin) / count)) return false;
    }
    return true;
  }

  static Tensor converted(const Tensor& part, const ExportedTensor& tensor,
                          const std::vector<float>& importance) {
    if (!is_quantised(tensor.to)) return part.to(tensor.to);
    try {
      return quantise(part.to(DType::f32), tensor.to, importance);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("{}: {}", tensor.name, error.what()));
    }
  }

  bool advance(std::int64_t bytes) {
    done_ += bytes;
    return !options_.progress || options_.progress(done_, result_.bytes_before);
  }

  Source source_;
  const ExportOptions& options_;
  ExportResult result_;
  std::int64_t done_ = 0;
};

}  // namespace

ExportResult export_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                         const ExportOptions& options) {
  return Exporter(from, options).write(to);
}

}  // namespace hearth::llm
