// Cosines and sines of a rope's angles as a table in memory.
#pragma once

#include <cstdint>

#include "gpu/device.h"
#include "gpu/kernel_arguments.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

class RopeAngles {
 public:
  // (time, half) numbers each, in the type in which elements of `dtype` are computed with.
  struct Table {
    void *cosine, *sine;
  };

  RopeAngles(GpuDevice& device, DType dtype, std::int64_t time, std::int64_t half);
  std::size_t bytes() const { return 2 * one_bytes(); }
  Table compute(const RopeTurns& turns, void* scratch) const;

 private:
  std::size_t one_bytes() const;

  GpuDevice& device_;
  DType dtype_;
  std::int64_t time_, half_;
  Function function_;
};

}  // namespace hearth::gpu
