// `hearth quantize` and `hearth convert`: model files from model files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/progress.h"
#include "llm/gguf_export.h"
#include "llm/importance.h"
#include "llm/type_mix.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct QuantizeOptions {
  std::string from, to, type, importance;
  int threads = 0;
  bool requantise = false, force = false, json = false;
};

// How many tensors became what.
Table table_of(const llm::ExportResult& result) {
  std::map<std::tuple<DType, DType, DType>, std::int64_t> counts;
  for (const auto& tensor : result.tensors) ++counts[{tensor.from, tensor.to, tensor.wanted}];
  Table table{{"tensors", "from", "to", ""}};
  for (const auto& [types, count] : counts) {
    const auto& [from, to, wanted] = types;
    table.push_back({std::to_string(count), std::string(dtype_name(from)), std::string(dtype_name(to)),
                     to == wanted ? ""
                                  : fmt::format("rows do not divide into the {} elements of a block of {}",
                                                block_elements(wanted), dtype_name(wanted))});
  }
  return table;
}

nlohmann::json to_json(const llm::ExportResult& result) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& tensor : result.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"from", dtype_name(tensor.from)},
                       {"to", dtype_name(tensor.to)},
                       {"wanted", dtype_name(tensor.wanted)},
                       {"weighed", tensor.weighed}});
  return {{"tensors", tensors},
          {"bytes_before", result.bytes_before},
          {"bytes_after", result.bytes_after},
          {"lost", result.lost}};
}

int quantize(const QuantizeOptions& options) {
  if (options.threads > 0) {
    Config changed = config();
    changed.threads = options.threads;
    set_config(changed);
  }
  check_output(options.to, options.force);
  std::optional<llm::Importance> importance;
  if (!options.importance.empty()) importance = llm::load_importance(options.importance);
  const auto start = std::chrono::steady_clock::now();
  const train::InterruptGuard interrupt(true, "\nstopping; once more to stop at once\n");
  ProgressBar bar;
  bar.begin("writing", 1000);
  const llm::ExportResult result = llm::export_gguf(options.from, options.to,
                                                    {.type = options.type,
                                                     .requantise = options.requantise,
                                                     .importance = importance ? &*importance : nullptr,
                                                     .progress = [&](std::int64_t done, std::int64_t total) {
                                                       bar.update(total > 0 ? done * 1000 / total : 1000, {});
                                                       return !interrupt.requested();
                                                     }});
  bar.clear();
  if (!result.finished) return interrupted;
  for (const std::string& lost : result.lost)
    say("hearth: warning: the file cannot say {}; some texts will have other tokens\n", lost);
  if (options.json) {
    fmt::print("{}\n", json_text(to_json(result)));
    return success;
  }
  fmt::print("{}", plain(table_of(result)));
  if (importance) {
    const auto weighed =
        std::count_if(result.tensors.begin(), result.tensors.end(), [](const auto& t) { return t.weighed; });
    fmt::print("{} of them weighed by importance\n", weighed);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {} of weights, were {}, in {:.1f} s\n", options.to,
             size_text(static_cast<std::size_t>(result.bytes_after)),
             size_text(static_cast<std::size_t>(result.bytes_before)), seconds.count());
  return success;
}

std::string type_names() {
  std::string names;
  for (const auto& mix : llm::type_mixes()) names += (names.empty() ? "" : ", ") + std::string(mix.name);
  return names;
}

void add_common(CLI::App& command, QuantizeOptions& options) {
  command
      .add_option("in", options.from,
                  "A GGUF file (of parts, the first), or a folder with config.json and safetensors")
      ->required();
  command.add_option("out", options.to, "The GGUF file to write; it appears when it is complete")
      ->check(must_not_be_empty())
      ->required();
  command.add_flag("-f,--force", options.force, "Replace the file if it is there already");
  command.add_option("--threads", options.threads, "Threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--json", options.json, "Print what became of each tensor as JSON");
}

}  // namespace

void add_quantize(CLI::App& app, Action& action) {
  auto options = std::make_shared<QuantizeOptions>();
  auto* command = app.add_subcommand("quantize", "Write a model with its weights in fewer bits");
  add_common(*command, *options);
  command
      ->add_option("--type", options->type,
                   fmt::format("Type of the matrices: {}. Those with _m keep the output and some of the "
                               "others in better ones. Norms and biases are always f32.",
                               type_names()))
      ->transform(in_small_letters())
      ->required();
  command
      ->add_option("--imatrix", options->importance,
                   "How much the columns of weights matter: a file of 'hearth imatrix'")
      ->check(must_not_be_empty());
  command->add_flag("--requantize", options->requantise, "Also from weights that are quantised already");
  command->callback([options, &action] { action = [options] { return quantize(*options); }; });
}

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<QuantizeOptions>();
  auto* command = app.add_subcommand(
      "convert", "Write a folder of Hugging Face, or the parts of a GGUF file, as one GGUF file");
  add_common(*command, *options);
  command->add_option("--type", options->type, "Type of the matrices: f32, f16, bf16 (default: as they are)")
      ->transform(in_small_letters())
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command->callback([options, &action] { action = [options] { return quantize(*options); }; });
}

}  // namespace hearth::cli
