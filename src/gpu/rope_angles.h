// What a rope turns by: the inputs of a step that say so, and cosines and sines of its angles as a table.
#pragma once

#include <cstdint>

#include "device/step.h"
#include "gpu/device.h"
#include "gpu/kernel_arguments.h"
#include "graph/attributes.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

// Positions, from input `first` of a step on, and then frequencies where they are given.
class RopeInputs {
 public:
  // Throws DTypeError for positions that are not i64.
  RopeInputs(const Step& step, std::size_t first, bool frequencies_given, const RopeAttributes& rope,
             std::int64_t half);
  RopeTurns turns(void* const* inputs) const;

 private:
  std::size_t first_;
  bool frequencies_given_;
  RopeTurns turns_;  // without the inputs
};

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
