// hipemu kernels: what the kernels in a file need of a chip.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "code_object/code_object.h"
#include "code_object/target.h"
#include "exec/occupancy.h"
#include "isa/chip.h"
#include "tool/commands.h"
#include "tool/images.h"

namespace hipemu::tool {
namespace {

struct Options {
  std::string file;
  std::string arch;
  uint32_t block = 256;
  bool json = false;
};

// The chip to compute occupancy for: the one asked for, or the one that the code is for.
const Chip* chip_for(const CodeObject& object, const Options& options) {
  if (!options.arch.empty()) return find_chip(parse_target_id(options.arch).processor);
  return find_chip(object.processor());
}

uint32_t block_for(const Kernel& kernel, const Options& options) {
  return std::max(1u, std::min(options.block, kernel.max_flat_workgroup_size));
}

std::vector<CodeObject> code_objects(const std::vector<Bundle>& bundles, const Options& options) {
  std::vector<CodeObject> objects;
  std::string present;
  for (const Bundle& bundle : bundles) {
    const BundleEntry* best = nullptr;
    int best_score = -1;
    for (const BundleEntry& entry : bundle.entries()) {
      if (entry.code.empty() || entry.target.empty()) continue;
      present += (present.empty() ? "" : ", ") + entry.target;
      if (options.arch.empty()) {
        objects.push_back(parse_code_object(entry.code));
        continue;
      }
      const std::optional<int> score =
          suitability(parse_target_id(entry.target), parse_target_id(options.arch));
      if (score && *score > best_score) best = &entry, best_score = *score;
    }
    if (best) objects.push_back(parse_code_object(best->code));
  }
  if (objects.empty())
    throw ToolError(fmt::format("no code {}{} in {}{}", options.arch.empty() ? "for AMD GPUs" : "for ",
                                options.arch, options.file,
                                present.empty() ? "" : "; there is code for " + present));
  return objects;
}

void print_table(const std::vector<CodeObject>& objects, const Options& options) {
  bool first = true;
  for (const CodeObject& object : objects) {
    const Chip* chip = chip_for(object, options);
    fmt::print("{}{} (code object version {}, {} kernel{})\n", first ? "" : "\n", object.target,
               object.abi_version, object.kernels.size(), object.kernels.size() == 1 ? "" : "s");
    first = false;
    if (object.kernels.empty()) continue;
    fmt::print("  {:>5} {:>5} {:>5} {:>7} {:>7} {:>8} {:>8} {:>6}  {:>10}  {:<16}  kernel\n", "VGPRs",
               "AGPRs", "SGPRs", "spills", "LDS", "scratch", "kernarg", "block", "waves/SIMD", "limited by");
    for (const Kernel& kernel : object.kernels) {
      std::string waves = "-", limit = "-";
      if (chip) {
        const Occupancy result = occupancy_of(kernel, *chip, block_for(kernel, options), 0);
        waves = fmt::format("{}/{}", result.waves_per_simd, chip->waves_per_simd);
        limit = result.limited_by;
      }
      fmt::print("  {:>5} {:>5} {:>5} {:>7} {:>7} {:>8} {:>8} {:>6}  {:>10}  {:<16}  {}\n", kernel.vgpr_count,
                 kernel.agpr_count, kernel.sgpr_count, kernel.vgpr_spills + uint64_t(kernel.sgpr_spills),
                 kernel.descriptor.group_segment_size, kernel.descriptor.private_segment_size,
                 kernel.descriptor.kernarg_size, kernel.max_flat_workgroup_size, waves, limit,
                 kernel.readable_name());
    }
  }
}

void print_json(const std::vector<CodeObject>& objects, const Options& options) {
  nlohmann::json list = nlohmann::json::array();
  for (const CodeObject& object : objects) {
    const Chip* chip = chip_for(object, options);
    nlohmann::json kernels = nlohmann::json::array();
    for (const Kernel& kernel : object.kernels) {
      nlohmann::json entry = {{"name", kernel.name},
                              {"demangled", kernel.readable_name()},
                              {"wave_size", kernel.wavefront_size},
                              {"vgprs", kernel.vgpr_count},
                              {"agprs", kernel.agpr_count},
                              {"sgprs", kernel.sgpr_count},
                              {"vgpr_spills", kernel.vgpr_spills},
                              {"sgpr_spills", kernel.sgpr_spills},
                              {"lds_bytes", kernel.descriptor.group_segment_size},
                              {"scratch_bytes_per_lane", kernel.descriptor.private_segment_size},
                              {"kernarg_bytes", kernel.descriptor.kernarg_size},
                              {"max_block", kernel.max_flat_workgroup_size}};
      if (chip) {
        const uint32_t block = block_for(kernel, options);
        const Occupancy result = occupancy_of(kernel, *chip, block, 0);
        entry["occupancy"] = {{"chip", chip->processor},
                              {"block", block},
                              {"waves_per_simd", result.waves_per_simd},
                              {"blocks_per_unit", result.blocks_per_unit},
                              {"maximum", chip->waves_per_simd},
                              {"limited_by", result.limited_by}};
      }
      kernels.push_back(std::move(entry));
    }
    list.push_back({{"target", object.target},
                    {"code_object_version", object.abi_version},
                    {"kernels", std::move(kernels)}});
  }
  // Names come from the file and need not be UTF-8.
  fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_kernels_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("kernels", "Lists the kernels in a file and what they need");
  auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "code object, offload bundle, or program with GPU code in it")
      ->required();
  command->add_option("--arch", options->arch, "only the code that runs on this processor, e.g. gfx1100");
  command
      ->add_option("--block", options->block,
                   "threads per block that the occupancy is for (at most the kernel's)")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "as JSON");
  command->footer(
      "Occupancy is what registers and LDS allow, in waves per SIMD; LDS that is asked for at launch comes "
      "on top.\n"
      "It is not known (-) for chips that are not in `hipemu chips`.");
  command->callback([options, &invocation] {
    const std::vector<std::byte> file = read_file(options->file);
    const std::vector<Bundle> bundles = bundles_in(file, options->file);
    const std::vector<CodeObject> objects = code_objects(bundles, *options);
    options->json ? print_json(objects, *options) : print_table(objects, *options);
    invocation.exit_code = 0;
  });
}

}  // namespace hipemu::tool
