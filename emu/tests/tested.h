// Which instructions the tests of single instructions have run.
#pragma once

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "isa/instruction.h"

namespace hipemu {

// With HIPEMU_TESTED=<file> the names of all instructions that ran are appended to it: check_tested.py
// compares them with those that compiled kernels use.
inline void record_tested(const Instruction& instruction) {
  struct Names {
    std::set<std::string> all;
    ~Names() {
      const char* path = std::getenv("HIPEMU_TESTED");
      if (path == nullptr) return;
      std::ofstream file(path, std::ios::app);
      for (const std::string& name : all) file << name << "\n";
    }
  };
  static Names names;
  names.all.insert(instruction.mnemonic);
  for (const Instruction& second : instruction.second) names.all.insert(second.mnemonic);
}

}  // namespace hipemu
