// Starting a program so that it finds the emulated GPU instead of AMD's runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hipemu::tool {

struct ProgramStart {
  std::vector<std::string> command;  // program and its arguments
  std::string chips;                 // empty: as the environment says, or the default
  std::optional<std::string> check;  // as HIPEMU_CHECK has it
  std::optional<uint64_t> seed;
  std::vector<std::pair<std::string, std::string>> variables;  // further ones to set
};

// The folder with our libamdhip64.so: HIPEMU_LIB_DIR, or where it lies relative to this program when
// installed or built. Throws ToolError when it is nowhere.
std::string library_folder();

// Replaces this process by the program. Returns only when that fails: 126 or 127, after telling why.
int start_program(const ProgramStart& start);

}  // namespace hipemu::tool
