// `hearth kernels`: compiling kernels before they are needed, and looking after those that are kept.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/say.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/kernel_build.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "gpu/kernel_cache.h"
#include "hearth/device.h"
#include "hearth/error.h"

namespace hearth::cli {
namespace {

struct KernelsOptions {
  std::vector<std::string> architectures;
  std::string workload;  // those whose name contains it
  int jobs = 0;          // 0: one per core
  bool json = false;
  bool markdown = false;      // of `list`
  std::string markdown_file;  // of `build`
};

// Those given; or those of the GPUs that are there.
std::vector<std::string> architectures(const KernelsOptions& options) {
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

std::vector<Workload> workloads(const KernelsOptions& options) {
  std::vector<Workload> chosen = kernel_workloads();
  std::string names;
  for (const Workload& workload : chosen) names += (names.empty() ? "" : ", ") + workload.name;
  std::erase_if(chosen, [&](const Workload& workload) {
    return workload.name.find(options.workload) == std::string::npos;
  });
  if (chosen.empty())
    throw ValueError(fmt::format("there is no workload \"{}\"; there are {}", options.workload, names));
  return chosen;
}

// The figures of all variants of a kernel on a chip.
struct Worst {
  // Of 16-byte loads and of the matrix unit: variants that should have such instructions, and that do.
  struct Share {
    std::size_t expected = 0, checked = 0, have = 0;
    void add(bool is_expected, const std::optional<Instructions>& instructions, int Instructions::*count) {
      if (!is_expected) return;
      ++expected;
      if (!instructions) return;
      ++checked;
      have += (*instructions).*count > 0;
    }
    std::string text() const {
      if (expected == 0) return "-";
      return checked < expected ? "not checked" : fmt::format("{} of {}", have, expected);
    }
  };
  std::size_t variants = 0, failed = 0;
  Share wide, matrix;
  int vector_registers = 0, occupancy = 0, occupancy_most = 0;
  std::optional<int> scalar_registers, vector_spills, scalar_spills;
  std::uint32_t shared_bytes = 0, scratch_bytes = 0;

  void add(const BuiltKernel& built) {
    ++variants;
    if (!built.problem.empty()) {
      ++failed;
      return;
    }
    const gpu::KernelResources& r = built.resources;
    vector_registers = std::max(vector_registers, r.vector_registers);
    scalar_registers = std::max(scalar_registers, r.scalar_registers);
    vector_spills = std::max(vector_spills, r.vector_spills);
    scalar_spills = std::max(scalar_spills, r.scalar_spills);
    shared_bytes = std::max(shared_bytes, r.shared_bytes);
    scratch_bytes = std::max(scratch_bytes, r.scratch_bytes);
    if (occupancy_most == 0 || built.occupancy.resident < occupancy) {
      occupancy = built.occupancy.resident;
      occupancy_most = built.occupancy.most;
    }
    wide.add(reads_packets(built.needed), built.instructions, &Instructions::wide_loads);
    matrix.add(uses_matrix_unit(built.needed), built.instructions, &Instructions::matrix);
  }
};

std::string text_of(const std::optional<int>& number) { return number ? std::to_string(*number) : "-"; }

std::vector<std::string> cells(const Worst& worst) {
  return {std::to_string(worst.variants),
          std::to_string(worst.vector_registers),
          text_of(worst.scalar_registers),
          worst.vector_spills ? fmt::format("{} / {}", *worst.vector_spills, worst.scalar_spills.value_or(0))
                              : "-",
          std::to_string(worst.shared_bytes),
          std::to_string(worst.scratch_bytes),
          fmt::format("{}/{}", worst.occupancy, worst.occupancy_most),
          worst.wide.text(),
          worst.matrix.text(),
          worst.failed > 0 ? fmt::format("{} failed", worst.failed) : ""};
}

// A row per kernel, for all chips on which its figures are the same.
Table table_of(const std::vector<BuiltKernel>& all) {
  std::map<std::string, std::vector<std::pair<gpu::Target, Worst>>> kernels;
  for (const BuiltKernel& built : all) {
    auto& chips = kernels[built.needed.label];
    const gpu::Target& target = built.needed.target;
    if (chips.empty() || chips.back().first.architecture != target.architecture)
      chips.push_back({target, {}});
    chips.back().second.add(built);
  }
  Table table{{"kernel", "chips", "variants", "VGPR", "SGPR", "spills V / S", "LDS", "scratch", "occupancy",
               "16-byte loads", "matrix unit", ""}};
  for (const auto& [label, chips] : kernels) {
    Table rows;
    for (const auto& [target, worst] : chips) {
      const auto figures = cells(worst);
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
        return std::equal(figures.begin(), figures.end(), row.begin() + 2, row.end());
      });
      if (same != rows.end()) {
        (*same)[1] += " " + target.architecture;
        continue;
      }
      rows.push_back({label, target.architecture});
      rows.back().insert(rows.back().end(), figures.begin(), figures.end());
    }
    table.insert(table.end(), rows.begin(), rows.end());
  }
  const bool any_failed =
      std::any_of(table.begin() + 1, table.end(), [](const auto& row) { return !row.back().empty(); });
  if (!any_failed)
    for (auto& row : table) row.pop_back();
  return table;
}

nlohmann::json to_json(const BuiltKernel& built) {
  const gpu::NotedKernel& kernel = built.needed.kernel;
  nlohmann::json json{{"architecture", built.needed.target.architecture},
                      {"kernel", built.needed.label},
                      {"workload", built.needed.workload},
                      {"source", kernel.source.text}};
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
               {"threads", kernel.threads},
               {"occupancy", built.occupancy.resident},
               {"occupancy_most", built.occupancy.most}});
  if (built.instructions)
    json.update({{"loads", built.instructions->loads},
                 {"wide_loads", built.instructions->wide_loads},
                 {"matrix_instructions", built.instructions->matrix}});
  return json;
}

constexpr const char* legend =
    "A kernel has variants for types, shapes and alignments; each column has the worst of them. VGPR and "
    "SGPR: registers; spills: vector registers go to memory, scalar ones into lanes of a vector register "
    "that VGPR counts; LDS in bytes per block; scratch: memory in bytes per lane; occupancy in waves per "
    "SIMD (AMD) or blocks per multiprocessor (NVIDIA), of the most there can be. 16-byte loads, in the "
    "disassembly: variants that have them, of those for operands that lie side by side and aligned where "
    "memory is the limit. Not counted, because they cannot: variants for operands that are strided, turned "
    "round or unaligned, for single values, for types of one byte, read eight at a time, and for operands "
    "narrower than the result, of which as many are read as make 16 bytes of it. Matrix unit: variants that "
    "use it, of those with f16, bf16 or i8 in tiles; f32 and f64 are multiplied by each lane, and gfx1030 "
    "has no unit.";

// The page docs/kernels.md.
std::string page(const std::vector<BuiltKernel>& all, const KernelsOptions& options) {
  const auto is_faulty = [](const BuiltKernel& built) { return !fault_of(built).empty(); };
  return fmt::format(
      "# What the kernels use\n\n"
      "The kernels that training, text generation and the single operations use, compiled for chips that "
      "need not be there. This page is what\n\n"
      "    hearth kernels build --arch {}{} --markdown {}\n\n"
      "writes. The command fails where a kernel does not compile, spills vector registers, has local "
      "variables in memory, needs more than 64 KiB of LDS, or lacks the loads or the matrix instructions "
      "that it is written for: {} of these {} do.\n\n{}\n\n{}",
      fmt::join(architectures(options), ","),
      options.workload.empty() ? "" : fmt::format(" --workload '{}'", options.workload),
      options.markdown_file, std::count_if(all.begin(), all.end(), is_faulty), all.size(), legend,
      markdown(table_of(all)));
}

// On a terminal one line that changes; otherwise a line now and then.
void show_progress(std::size_t done, std::size_t all) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal)
    say("\r{} of {} compiled{}", done, all, done == all ? "\n" : "");
  else if (done % 100 == 0 || done == all)
    say("{} of {} compiled\n", done, all);
}

int build_all(const KernelsOptions& options) {
  if (!options.markdown_file.empty()) check_writable(options.markdown_file);
  std::vector<NeededKernel> needed;
  const auto chosen = workloads(options);
  const auto chips = architectures(options);
  for (const std::string& name : chips) require_architecture(name);
  for (const std::string& name : chips) {
    const auto kernels = find_kernels(name, chosen);
    needed.insert(needed.end(), kernels.begin(), kernels.end());
  }
  const std::size_t compiled_before = gpu::compiler_stats().compilations;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto all = build_kernels(needed, options.jobs > 0 ? options.jobs : cores, show_progress);

  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const BuiltKernel& built : all) list.push_back(to_json(built));
    fmt::print("{}\n", json_text(list));
  } else {
    const gpu::CompilerStats stats = gpu::compiler_stats();
    fmt::print("{}\n{}\n{} kernels; {} texts compiled now in {:.1f} s; kept in {}\n", plain(table_of(all)),
               legend, all.size(), stats.compilations - stats.errors - compiled_before, stats.seconds,
               gpu::kernel_cache().folder().empty() ? "memory only" : gpu::kernel_cache().folder().string());
    if (disassembler().empty())
      fmt::print("Instructions were not checked: there is no llvm-objdump for AMD code.\n");
  }
  if (!options.markdown_file.empty()) {
    AtomicFile file(options.markdown_file);
    file.write(page(all, options));
    file.commit();
  }

  std::size_t faults = 0;
  constexpr std::size_t most_shown = 20;
  for (const BuiltKernel& built : all) {
    const std::string fault = fault_of(built);
    if (fault.empty() || ++faults > most_shown) continue;
    say("{} for {}, of {}: {}\n", built.needed.label, built.needed.target.architecture, built.needed.workload,
        fault);
  }
  if (faults > 0)
    throw CompileError(fmt::format("{} of {} kernels are not as they should be", faults, all.size()));
  return success;
}

constexpr const char* nothing_kept =
    "Nothing is kept on disk: HEARTH_KERNEL_CACHE is \"off\", or there is no home folder.\n";

int list_cache(const KernelsOptions& options) {
  const gpu::KernelCache& cache = gpu::kernel_cache();
  struct Total {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Total> by_architecture;
  Total total;
  const auto count = [](Total& sum, std::uint64_t bytes) {
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
    fmt::print("{}\n", json_text(report));
    return success;
  }
  const auto kibibytes = [](std::uint64_t bytes) { return fmt::format("{} KiB", (bytes + 1023) / 1024); };
  Table table{{"architecture", "kernels", "size"}};
  for (const auto& [name, sum] : by_architecture)
    table.push_back({name, std::to_string(sum.files), kibibytes(sum.bytes)});
  table.push_back({"all", std::to_string(total.files), kibibytes(total.bytes)});
  fmt::print("{}\n", options.markdown ? markdown(table) : plain(table));
  if (cache.folder().empty())
    fmt::print("{}", nothing_kept);
  else
    fmt::print("In {}, of which the kernels used last are kept, at most {}.\n", cache.folder().string(),
               gibibytes(cache.limit()));
  return success;
}

int clear_cache() {
  if (gpu::kernel_cache().folder().empty()) {
    fmt::print("{}", nothing_kept);
    return success;
  }
  const std::size_t count = gpu::kernel_cache().files().size();
  gpu::kernel_cache().clear();
  fmt::print("{} kernels removed from {}\n", count, gpu::kernel_cache().folder().string());
  return success;
}

}  // namespace

void add_kernels(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("kernels", "Compile GPU kernels ahead of time; manage those kept");
  command->require_subcommand(1);
  const auto options = std::make_shared<KernelsOptions>();
  CLI::App* build = command->add_subcommand(
      "build", "Compile the kernels that programs use and show what registers and memory they need");
  build
      ->add_option(
          "--arch", options->architectures,
          "Architectures, e.g. gfx1101,gfx942,sm_90; the GPUs need not be there. Default: those that are")
      ->delimiter(',');
  build->add_option("--workload", options->workload,
                    "Only for workloads whose name contains this, e.g. gpt or \"matmul f16\"");
  build->add_option("--jobs", options->jobs, "Kernels to compile at the same time (default: one per core)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  build->add_flag("--json", options->json, "Print all variants as JSON");
  build->add_option("--markdown", options->markdown_file, "Also write the table as a page in Markdown")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  build->callback([options, &action] { action = [options] { return build_all(*options); }; });
  CLI::App* list = command->add_subcommand("list", "Show what is kept on disk");
  CLI::Option* json = list->add_flag("--json", options->json, "Print JSON");
  list->add_flag("--markdown", options->markdown, "Print the table in Markdown")->excludes(json);
  list->callback([options, &action] { action = [options] { return list_cache(*options); }; });
  CLI::App* clear = command->add_subcommand("clear", "Remove what is kept on disk");
  clear->callback([&action] { action = [] { return clear_cache(); }; });
}

}  // namespace hearth::cli
