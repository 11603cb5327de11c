// Where a product of queries, keys and values puts them (device/step.h, StoredHeads), for kernels that go on
// as kernels/stored_heads.h has it.
#pragma once

#include <memory>
#include <string>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/rope_angles.h"

namespace hearth::gpu {

// As kernels/stored_heads.h has it.
struct HeadRows {
  const void* slots;
  std::int64_t slot_step;
  void* cache;
};
struct StoreHeads {
  RopeTurns turns;
  HeadRows keys, values;
  void* queries;
  std::int64_t slots;
  std::uint32_t rows, heads, groups;
  Fault fault;
};

class HeadStore {
 public:
  HeadStore(GpuDevice& device, const Step& step);

  // Copies caches that are not written in place first.
  StoreHeads arguments(const KernelArguments& arguments) const;

  std::string type() const;     // of the kernel's argument
  std::string pairing() const;  // of the weights' rows
  std::string_view cache_type() const { return storage_type(cache_dtype_); }
  bool interleaved() const { return stored_.rope.interleaved; }
  std::int64_t half() const { return stored_.size / 2; }
  // Whether nothing in the plan writes the rope's frequencies, or its positions either.
  bool steady_frequencies() const { return steady_frequencies_; }
  bool steady_turns() const { return steady_frequencies_ && steady_positions_; }

 private:
  GpuDevice& device_;
  StoredHeads stored_;
  RopeInputs turned_by_;
  bool steady_positions_, steady_frequencies_;
  std::int64_t rows_, key_slot_step_, value_slot_step_, cache_slots_;
  DType cache_dtype_;
  std::unique_ptr<Kernel> copy_;
};

// Whether caches and slots of a store are as the kernels have them.
bool head_store_fits(const Step& product, const Step& store);

}  // namespace hearth::gpu
