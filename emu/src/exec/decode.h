// From the text of an instruction to something that runs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "exec/operation.h"
#include "isa/chip.h"
#include "isa/disassembler.h"

namespace hipemu {

// The instruction is not known, or not in this form. The message has its text.
struct UnknownInstruction : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The row for a mnemonic (without suffix of the encoding), or null.
const Semantics* find_semantics(std::string_view mnemonic);
std::vector<std::string_view> known_mnemonics();

std::unique_ptr<Operation> decode(const Instruction& instruction, const Chip& chip, int wave_size);

// The code of one loaded code object for one wave size, decoded as it is reached. Safe to use from several
// threads.
class Program {
 public:
  Program(std::span<const std::byte> code, const Chip& chip, int wave_size);
  ~Program();

  // The operation at an address. Throws KernelFault when it is outside of the code or cannot be decoded.
  const Operation& at(uint64_t address) {
    const uint64_t index = (address - begin_) / 4;
    if (index < slots_.size()) [[likely]] {
      const Operation* operation = slots_[index].load(std::memory_order_acquire);
      if (operation != nullptr) [[likely]]
        return *operation;
    }
    return decode_at(address);
  }

  int wave_size() const { return wave_size_; }

 private:
  const Operation& decode_at(uint64_t address);

  std::span<const std::byte> code_;
  uint64_t begin_;
  const Chip& chip_;
  int wave_size_;
  std::vector<std::atomic<const Operation*>> slots_;  // one per four bytes
  std::mutex mutex_;
  std::unique_ptr<Disassembler> disassembler_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

}  // namespace hipemu
