// Machine code to text, by LLVM, which knows every AMD chip. The library is opened at run time (libLLVM 19 or
// later).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "isa/chip.h"

namespace hipemu {

struct DisassemblerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Not safe to use from two threads at once.
class Disassembler {
 public:
  Disassembler(const Chip& chip, int wave_size);  // throws DisassemblerError when there is no LLVM
  ~Disassembler();
  // Loads LLVM now. Its destructors run at the end of the process after the handlers that are registered from
  // here on: loaded by the thread of a stream, it could be torn down while that thread still loads it.
  static void prepare() noexcept;
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  struct Line {
    std::string text;      // empty when these bytes are no instruction
    std::size_t size = 0;  // bytes
  };
  Line decode(std::span<const std::byte> code, uint64_t address);

 private:
  void* context_ = nullptr;
};

}  // namespace hipemu
