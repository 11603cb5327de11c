// Copying and filling strided arrays, on the pool's threads.
#include "cpu/strided_copy.h"

#include "base/thread_pool.h"
#include "cpu/dispatch.h"

namespace hearth::cpu {

void copy_strided(const StridedLoop& loop, DType dtype, const void* source, void* target) {
  dispatch_size(dtype, [&]<typename T>(std::type_identity<T>) {
    const T* from = static_cast<const T*>(source);
    T* to = static_cast<T*>(target);
    const auto from_stride = loop.inner_stride(0), to_stride = loop.inner_stride(1);
    parallel_for(loop.count(), copy_grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
        copy_run(from + offsets[0], from_stride, to + offsets[1], to_stride, length);
      });
    });
  });
}

void fill_strided(const StridedLoop& loop, DType dtype, const void* element, void* target) {
  dispatch_size(dtype, [&]<typename T>(std::type_identity<T>) {
    T value;
    std::memcpy(&value, element, sizeof value);
    T* to = static_cast<T*>(target);
    const auto stride = loop.inner_stride(0);
    parallel_for(loop.count(), copy_grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
        T* run = to + offsets[0];
        if (stride == 1)
          std::fill_n(run, length, value);
        else
          for (std::int64_t i = 0; i < length; ++i) run[i * stride] = value;
      });
    });
  });
}

}  // namespace hearth::cpu
