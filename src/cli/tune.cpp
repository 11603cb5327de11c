// `hearth tune`: measures which way to compute matrix products and convolutions is fastest on a GPU, and
// keeps it in a file.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/say.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "gpu/tuner.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/hearth.h"

namespace hearth::cli {
namespace {

struct TuneOptions {
  std::string device = "gpu";
  std::vector<std::string> shapes, models;
  bool exhaustive = false, json = false, show = false, clear = false;
};

using Entries = std::map<std::string, gpu::TuningEntry>;

// Something whose products and convolutions are measured.
struct TunedWorkload {
  std::string name;
  std::function<void()> run;
};

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::bf16;
  std::string layout = "nt";  // n: as rows, t: transposed; of the left and of the right operand
};

// "m,n,k", then perhaps a dtype and a layout: "4096,4096,1024,bf16,nt".
ProductShape parse_shape(const std::string& text) {
  const auto wrong = [&](const char* what) {
    return ValueError(fmt::format("{}: {}; give m,n,k[,f32|f16|bf16[,nn|nt|tn|tt]]", text, what));
  };
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  if (parts.size() < 3 || parts.size() > 5) throw wrong("three sizes are needed");
  ProductShape shape;
  std::int64_t* const sizes[] = {&shape.m, &shape.n, &shape.k};
  for (std::size_t i = 0; i < 3; ++i) {
    const char* end = parts[i].data() + parts[i].size();
    const auto [stop, error] = std::from_chars(parts[i].data(), end, *sizes[i]);
    if (error != std::errc() || stop != end || *sizes[i] < 1) throw wrong("a size is not a number above 0");
  }
  if (parts.size() > 3) {
    if (parts[3] != "f32" && parts[3] != "f16" && parts[3] != "bf16") throw wrong("unknown dtype");
    shape.dtype = parts[3] == "f32" ? DType::f32 : parts[3] == "f16" ? DType::f16 : DType::bf16;
  }
  if (parts.size() > 4) {
    shape.layout = parts[4];
    if (shape.layout.size() != 2 || shape.layout.find_first_not_of("nt") != std::string::npos)
      throw wrong("unknown layout");
  }
  return shape;
}

TunedWorkload product_workload(const ProductShape& shape) {
  return {fmt::format("{} {}x{}x{} {}", dtype_name(shape.dtype), shape.m, shape.n, shape.k, shape.layout),
          [shape] {
            const auto operand = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
              const Tensor lying = randn(transposed ? Shape{columns, rows} : Shape{rows, columns});
              const Tensor kept = lying.to(shape.dtype).eval();
              return transposed ? kept.transpose(0, 1) : kept;
            };
            matmul(operand(shape.m, shape.k, shape.layout[0] == 't'),
                   operand(shape.k, shape.n, shape.layout[1] == 't'))
                .eval();
          }};
}

// One step of training, as `hearth train` and the examples do it.
TunedWorkload model_workload(const std::string& name) {
  const auto step = [](nn::Module& model, const Tensor& loss) {
    std::vector<Tensor> results = gradients(loss, model.parameters());
    results.push_back(loss);
    eval(results);
  };
  if (name == "mlp")
    return {"one training step of an MLP (784, 128, 10), batch 256", [step] {
              models::Mlp model({784, 128, 10});
              step(model, cross_entropy(model(randn({256, 784})), randint(0, 10, {256})));
            }};
  if (name == "cnn")
    return {"one training step of a CNN on 28 x 28 images, batch 64", [step] {
              models::MnistCnn model;
              step(model, cross_entropy(model(randn({64, 1, 28, 28})), randint(0, 10, {64})));
            }};
  return {"one training step of a GPT (4 layers, 256 features, context 256), batch 8, bf16", [step] {
            const Autocast autocast(DType::bf16);
            models::Gpt model({.vocabulary = 256, .context = 256, .layers = 4, .heads = 4, .features = 256});
            const Tensor tokens = randint(0, 256, {8, 256});
            step(model, model.loss(tokens, tokens));
          }};
}

std::vector<TunedWorkload> tuned_workloads(const TuneOptions& options) {
  std::vector<TunedWorkload> all;
  for (const std::string& shape : options.shapes) all.push_back(product_workload(parse_shape(shape)));
  for (const std::string& model : options.models) all.push_back(model_workload(model));
  if (!all.empty()) return all;
  for (const char* shape : {"1024,1024,1024,f32,nn", "1024,1024,1024", "4096,4096,4096", "4096,4096,4096,f16",
                            "1,4096,4096", "16,4096,4096"})
    all.push_back(product_workload(parse_shape(shape)));
  for (const char* model : {"cnn", "gpt"}) all.push_back(model_workload(model));
  return all;
}

std::string time_text(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }

std::vector<std::string> row_of(const std::string& problem, const gpu::TuningEntry& entry) {
  const std::vector<std::string> ranking = entry.ranking();
  const auto own = entry.seconds.find("own");
  const double best = ranking.empty() ? 0 : entry.seconds.at(ranking.front());
  return {problem, ranking.empty() ? "-" : ranking.front(), ranking.empty() ? "-" : time_text(best),
          own != entry.seconds.end() ? fmt::format("{:.2f}", own->second / best) : "-",
          std::to_string(entry.refused.size())};
}

const std::vector<std::string> heading = {"problem", "fastest", "time", "times faster than own", "refused"};

nlohmann::json to_json(const Entries& entries) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [problem, entry] : entries) {
    const auto ranking = entry.ranking();
    list.push_back({{"problem", problem},
                    {"fastest", ranking.empty() ? nlohmann::json() : nlohmann::json(ranking.front())},
                    {"seconds", entry.seconds},
                    {"refused", entry.refused},
                    {"exhaustive", entry.exhaustive}});
  }
  const TuningStats stats = tuning_stats();
  return {{"file", gpu::tuner().file().string()},
          {"entries", list},
          {"statistics",
           {{"entries", stats.entries},
            {"refused", stats.refused},
            {"hits", stats.hits},
            {"misses", stats.misses},
            {"tuned", stats.tuned}}}};
}

// Where it is kept.
std::string place() {
  const std::string file = gpu::tuner().file().string();
  return file.empty() ? "memory only: there is no home folder" : file;
}

void print_entries(const Entries& entries) {
  Table table{heading};
  for (const auto& [problem, entry] : entries) table.push_back(row_of(problem, entry));
  if (!entries.empty()) fmt::print("{}", plain(table));
  for (const auto& [problem, entry] : entries)
    for (const auto& [name, reason] : entry.refused)
      fmt::print("refused for {}: {}: {}\n", problem, name, reason);
  fmt::print("{} problems in {}\n", entries.size(), place());
}

int show(const TuneOptions& options) {
  const Entries entries = gpu::tuner().entries();
  if (options.json)
    fmt::print("{}\n", json_text(to_json(entries)));
  else
    print_entries(entries);
  return success;
}

int measure(const TuneOptions& options) {
  const std::vector<TunedWorkload> all = tuned_workloads(options);
  const Device device = device_from_name(options.device);
  if (device.kind == DeviceKind::cpu)
    throw ValueError("--device: a GPU is needed; there is nothing to tune on a CPU");
  set_default_device(device);
  Config configuration = config();
  configuration.enable_tuning = true;
  set_config(configuration);
  gpu::set_exhaustive_tuning(options.exhaustive);

  for (std::size_t i = 0; i < all.size(); ++i) {
    const TuningStats before = tuning_stats();
    say("[{}/{}] {} ... ", i + 1, all.size(), all[i].name);
    std::fflush(stderr);
    all[i].run();
    synchronize(device);
    const TuningStats after = tuning_stats();
    const std::size_t tuned = after.tuned - before.tuned, known = after.hits - before.hits;
    say("{}\n", tuned + known == 0 ? std::string("too small to matter, or one way only")
                                   : fmt::format("{} measured, {} known before", tuned, known));
  }
  for (const gpu::OpenAttempt& attempt : gpu::library_attempts())
    say("{}: {}\n", attempt.name, attempt.problem.empty() ? "opened" : attempt.problem);
  return show(options);
}

int run(const TuneOptions& options) {
  if (!options.clear) return options.show ? show(options) : measure(options);
  gpu::tuner().clear();
  if (options.json) return show(options);
  if (gpu::tuner().file().empty())
    fmt::print("Nothing is kept on disk: there is no home folder.\n");
  else
    fmt::print("{} is gone\n", place());
  return success;
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure which way to multiply matrices and to convolve is fastest on a GPU");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("--device", options->device, "The GPU to measure")
      ->type_name("DEVICE")
      ->capture_default_str();
  command->add_option("--shapes", options->shapes, "Products to measure: 4096,4096,1024,bf16,nt ...")
      ->check([](const std::string& text) {
        try {
          parse_shape(text);
          return std::string();
        } catch (const ValueError& error) {
          return std::string(error.what());
        }
      })
      ->type_name("M,N,K[,DTYPE[,LAYOUT]]");
  command->add_option("--model", options->models, "Models to measure, one training step each: mlp, cnn, gpt")
      ->check(CLI::IsMember({"mlp", "cnn", "gpt"}).description(""))
      ->type_name("NAME");
  command->add_flag("--exhaustive", options->exhaustive,
                    "Measure every way there is, not only the likely ones");
  command->add_flag("--json", options->json, "Print what is known as JSON");
  auto* show_flag = command->add_flag("--show", options->show, "Print what is known; measure nothing");
  command->add_flag("--clear", options->clear, "Forget everything that was measured")->excludes(show_flag);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace hearth::cli
