// Checkpoint files: tensors with the counters of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hearth/state_dict.h"

namespace hearth::train {

struct Checkpoint {
  StateDict tensors;  // names begin with the part they belong to: "model.conv1.weight"
  nlohmann::json counters;
};

// Replaces the file in one step.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Throws FileError, or FormatError for a file that is not a whole checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// The tensors of one part, without its name in front.
StateDict part_of(const StateDict& tensors, const std::string& part);
void add_part(StateDict& tensors, const std::string& part, const StateDict& added);

// checkpoint-0000000123.safetensors
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
// The step in a checkpoint's name.
std::optional<std::int64_t> step_of(const std::filesystem::path& path);

// Removes all but the newest `keep_last` and the one of `best_step`.
void remove_old_checkpoints(const std::filesystem::path& folder, int keep_last, std::int64_t best_step);

}  // namespace hearth::train
