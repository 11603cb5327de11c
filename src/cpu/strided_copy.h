// Copying and filling strided arrays, on the pool's threads.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/strided.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Elements a thread should get at least, where each costs about a copy.
inline constexpr std::int64_t copy_grain = 16384;

template <typename T>
void copy_run(const T* source, std::int64_t source_stride, T* target, std::int64_t target_stride,
              std::int64_t count) {
  if (count == 1)
    *target = *source;
  else if (source_stride == 1 && target_stride == 1)
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
  else
    for (std::int64_t i = 0; i < count; ++i) target[i * target_stride] = source[i * source_stride];
}

// Operand 0 of the loop is the source, operand 1 the target. They do not overlap.
void copy_strided(const StridedLoop& loop, DType dtype, const void* source, void* target);

// Fills the only operand with one element, given by its bytes.
void fill_strided(const StridedLoop& loop, DType dtype, const void* element, void* target);

}  // namespace hearth::cpu
