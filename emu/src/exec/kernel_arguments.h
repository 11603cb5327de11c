// The block of memory a kernel finds its arguments in.
#pragma once

#include <cstddef>
#include <memory>

#include "exec/launch.h"

namespace hipemu {

// Explicit and hidden arguments and the dispatch packet of one launch, in memory that kernels may read.
class KernelArguments {
 public:
  KernelArguments(const Launch& launch, uint32_t lds_bytes, uint32_t scratch_bytes);
  ~KernelArguments();
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  std::byte* data() const { return block_; }
  std::byte* packet() const { return block_ + packet_offset_; }
  std::byte* queue() const { return packet() + 64; }

 private:
  std::byte* block_ = nullptr;
  std::size_t size_ = 0;
  std::size_t packet_offset_ = 0;
};

}  // namespace hipemu
