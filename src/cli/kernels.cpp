// `hearth kernels`: compiling kernels before they are needed, and looking after those that are kept.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "gpu/catalogue.h"
#include "gpu/code_object.h"
#include "gpu/kernel_cache.h"
#include "gpu/occupancy.h"
#include "hearth/device.h"
#include "hearth/error.h"

namespace hearth::cli {
namespace {

struct Options {
  std::vector<std::string> architectures;
  std::string filter;  // kernels whose name contains it
  bool json = false, markdown = false;
};

// One kernel on one architecture: its figures, or why there are none.
struct Built {
  std::string architecture;
  gpu::CatalogueEntry entry;
  gpu::KernelResources resources;
  gpu::Occupancy occupancy;
  std::string problem;
};

Built build(const gpu::Driver& driver, const gpu::Target& target, const gpu::CatalogueEntry& entry) {
  Built built{target.architecture, entry, {}, {}, {}};
  try {
    const auto code = gpu::compile(driver, target.architecture, target.wave_size, entry.source);
    for (const gpu::KernelResources& kernel : gpu::read_code_object(code).kernels)
      if (kernel.name == entry.function) built.resources = kernel;
    if (built.resources.name.empty()) throw CompileError("the code has no kernel " + entry.function);
    built.occupancy = gpu::occupancy(target, built.resources, entry.threads);
  } catch (const Error& error) {
    built.problem = error.what();
  }
  return built;
}

// Those given; or those of the GPUs that are there.
std::vector<std::string> architectures(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.architectures) {
    if (!name.starts_with("gfx") && !name.starts_with("sm_"))
      throw ValueError(fmt::format("\"{}\" is not an architecture; expected e.g. gfx1100 or sm_90", name));
    names.push_back(name);
  }
  if (!names.empty()) return names;
  for (const Device device : devices())
    if (device.kind != DeviceKind::cpu) {
      const std::string name = device_info(device).architecture;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  if (names.empty()) throw DeviceUnavailable("there is no GPU; name architectures with --arch");
  return names;
}

std::string text_of(const std::optional<int>& number) { return number ? std::to_string(*number) : "-"; }

Table table_of(const std::vector<Built>& all) {
  Table table{{"architecture", "kernel", "VGPR", "AGPR", "SGPR", "spills", "LDS", "scratch", "occupancy"}};
  for (const Built& built : all) {
    const gpu::KernelResources& r = built.resources;
    if (!built.problem.empty()) {
      table.push_back({built.architecture, built.entry.name, "failed", "", "", "", "", "", ""});
      continue;
    }
    const auto spills =
        r.vector_spills ? std::optional(*r.vector_spills + r.scalar_spills.value_or(0)) : std::nullopt;
    table.push_back({built.architecture, built.entry.name, std::to_string(r.vector_registers),
                     r.scalar_registers ? std::to_string(r.accumulation_registers) : "-",
                     text_of(r.scalar_registers), text_of(spills), std::to_string(r.shared_bytes),
                     std::to_string(r.scratch_bytes),
                     fmt::format("{}/{}", built.occupancy.resident, built.occupancy.most)});
  }
  return table;
}

nlohmann::json to_json(const Built& built) {
  nlohmann::json json{{"architecture", built.architecture}, {"kernel", built.entry.name}};
  if (!built.problem.empty()) {
    json["problem"] = built.problem;
    return json;
  }
  const gpu::KernelResources& r = built.resources;
  const auto or_null = [](const std::optional<int>& number) {
    return number ? nlohmann::json(*number) : nlohmann::json();
  };
  json.update({{"vector_registers", r.vector_registers},
               {"accumulation_registers", r.accumulation_registers},
               {"scalar_registers", or_null(r.scalar_registers)},
               {"vector_spills", or_null(r.vector_spills)},
               {"scalar_spills", or_null(r.scalar_spills)},
               {"shared_bytes", r.shared_bytes},
               {"scratch_bytes", r.scratch_bytes},
               {"threads", built.entry.threads},
               {"occupancy", built.occupancy.resident},
               {"occupancy_most", built.occupancy.most}});
  return json;
}

int build_all(const Options& options) {
  std::vector<Built> all;
  for (const std::string& name : architectures(options)) {
    const gpu::Target target = gpu::target_of(name);
    const gpu::Driver& driver = target.amd ? gpu::hip_driver() : gpu::cuda_driver();
    for (const gpu::CatalogueEntry& entry : gpu::catalogue(target))
      if (entry.name.find(options.filter) != std::string::npos) all.push_back(build(driver, target, entry));
  }
  int failed = 0;
  for (const Built& built : all) failed += !built.problem.empty();
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Built& built : all) list.push_back(to_json(built));
    fmt::print("{}\n", list.dump(2));
  } else if (options.markdown) {
    fmt::print("{}", markdown(table_of(all)));
  } else {
    const gpu::CompilerStats stats = gpu::compiler_stats();
    fmt::print("{}\n{} kernels, {} of them compiled now in {:.1f} s; kept in {}\n", plain(table_of(all)),
               all.size(), stats.compilations - stats.errors, stats.seconds,
               gpu::kernel_cache().folder().empty() ? "memory only" : gpu::kernel_cache().folder().string());
    fmt::print(
        "LDS in bytes per block, scratch in bytes per lane; occupancy in waves per SIMD (AMD) or blocks "
        "per multiprocessor (NVIDIA), of the most there can be\n");
  }
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Built& built) { return !built.problem.empty(); });
  if (failed == 0) return success;
  throw CompileError(fmt::format("{} of {} kernels failed; the first, for {}: {}", failed, all.size(),
                                 first->architecture, first->problem));
}

int list_cache(const Options& options) {
  const gpu::KernelCache& cache = gpu::kernel_cache();
  struct Sum {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Sum> by_architecture;
  Sum total;
  const auto count = [](Sum& sum, std::uint64_t bytes) {
    ++sum.files;
    sum.bytes += bytes;
  };
  for (const auto& file : cache.files()) {
    std::string architecture = "damaged";
    try {
      architecture = gpu::read_code_object(gpu::KernelCache::read_code(file.path)).architecture;
    } catch (const ValueError&) {
    }
    count(by_architecture[architecture], file.bytes);
    count(total, file.bytes);
  }
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [name, sum] : by_architecture)
      list.push_back({{"architecture", name}, {"kernels", sum.files}, {"bytes", sum.bytes}});
    const nlohmann::json report{{"folder", cache.folder().string()},
                                {"limit", cache.limit()},
                                {"kernels", total.files},
                                {"bytes", total.bytes},
                                {"architectures", list}};
    fmt::print("{}\n", report.dump(2));
    return success;
  }
  const auto kibibytes = [](std::uint64_t bytes) { return fmt::format("{} KiB", (bytes + 1023) / 1024); };
  Table table{{"architecture", "kernels", "size"}};
  for (const auto& [name, sum] : by_architecture)
    table.push_back({name, std::to_string(sum.files), kibibytes(sum.bytes)});
  table.push_back({"all", std::to_string(total.files), kibibytes(total.bytes)});
  fmt::print("{}\n", options.markdown ? markdown(table) : plain(table));
  if (cache.folder().empty())
    fmt::print("Nothing is kept on disk: HEARTH_KERNEL_CACHE is \"off\", or there is no home folder.\n");
  else
    fmt::print("In {}, of which the kernels used last are kept, at most {}.\n", cache.folder().string(),
               gibibytes(cache.limit()));
  return success;
}

int clear_cache() {
  const std::size_t count = gpu::kernel_cache().files().size();
  gpu::kernel_cache().clear();
  fmt::print("{} kernels removed from {}\n", count, gpu::kernel_cache().folder().string());
  return success;
}

}  // namespace

void add_kernels(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("kernels", "Compile GPU kernels ahead of time; manage those kept");
  command->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  const auto add_formats = [&](CLI::App* subcommand) {
    CLI::Option* json = subcommand->add_flag("--json", options->json, "Print JSON");
    subcommand->add_flag("--markdown", options->markdown, "Print the table in Markdown")->excludes(json);
  };
  CLI::App* build = command->add_subcommand("build", "Compile typical kernels and show what they use");
  build
      ->add_option(
          "--arch", options->architectures,
          "Architectures, e.g. gfx1101,gfx942,sm_90; the GPUs need not be there. Default: those that are")
      ->delimiter(',');
  build->add_option("--filter", options->filter,
                    "Only kernels whose name contains this, e.g. \"silu\" or \"f16\"");
  add_formats(build);
  build->callback([options, &action] { action = [options] { return build_all(*options); }; });
  CLI::App* list = command->add_subcommand("list", "Show what is kept on disk");
  add_formats(list);
  list->callback([options, &action] { action = [options] { return list_cache(*options); }; });
  CLI::App* clear = command->add_subcommand("clear", "Remove what is kept on disk");
  clear->callback([&action] { action = [] { return clear_cache(); }; });
}

}  // namespace hearth::cli
