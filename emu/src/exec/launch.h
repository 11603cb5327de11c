// Runs one kernel launch to its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "code_object/code_object.h"
#include "isa/chip.h"

namespace hipemu {

// What went wrong in a kernel. `report` is the text for the user, several lines.
struct Fault {
  enum class Kind {
    illegal_address,
    misaligned,
    illegal_instruction,
    race,
    uninitialised,
    barrier,
    matrix_layout,
    timeout,
    assertion,
    abort
  };
  Kind kind = Kind::abort;
  std::string report;
};

struct Launch {
  std::shared_ptr<const LoadedCode> code;
  const Kernel* kernel = nullptr;  // of `code`
  const Chip* chip = nullptr;
  int device = 0;
  std::array<uint32_t, 3> grid{1, 1, 1};   // blocks
  std::array<uint32_t, 3> block{1, 1, 1};  // threads
  uint32_t dynamic_lds = 0;                // bytes
  bool cooperative = false;
  std::vector<std::byte>
      arguments;  // explicit arguments, laid out as the metadata says; hidden ones are added here
};

// Blocks until the kernel has ended. Prints nothing. Safe to call from several threads at once. When
// `wave_instructions` is given it receives how many were executed.
std::optional<Fault> run(const Launch& launch, uint64_t* wave_instructions = nullptr);

}  // namespace hipemu
