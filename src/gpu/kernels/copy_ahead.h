// Tiles on their way from global to shared memory while those before are multiplied: by themselves where the
// chip can, else in registers until they are put.
#pragma once

#include "gpu.h"

// A thread's COUNT packets of 16 bytes.
template <int COUNT>
class CopyAhead {
 public:
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  static constexpr int buffers = 2;  // that a kernel needs: the copy is written while the one before is read
  DEVICE void start(int, void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
  }
  DEVICE void put(int, void*) const {}
  DEVICE void wait() const { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
  static constexpr int buffers = 1;
  DEVICE void start(int i, void*, const void* from) { held_[i] = *reinterpret_cast<const Unit16*>(from); }
  DEVICE void put(int i, void* to) const { *reinterpret_cast<Unit16*>(to) = held_[i]; }
  DEVICE void wait() const {}

 private:
  Unit16 held_[COUNT];
#endif
};

// Starts a copy of 16 bytes, or of zeros where they are not `there`; `from` must be readable either way.
// Where nothing goes on by itself, it is done at once.
DEVICE void start_copy_or_zero(void* to, const void* from, bool there) {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#else
  *reinterpret_cast<Unit16*>(to) = there ? *reinterpret_cast<const Unit16*>(from) : Unit16{};
#endif
}
// A thread's copies since the last end are one group; it waits until all but the last LEFT groups are there.
DEVICE void end_of_copies() {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT>
DEVICE void wait_for_copies() {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}
DEVICE void wait_for_copies() {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
