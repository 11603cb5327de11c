// Conversion of a step's arguments to dense arrays.
#include "cpu/dense.h"

#include "base/thread_pool.h"
#include "cpu/strided_copy.h"

namespace hearth::cpu {

DenseInput::DenseInput(const Layout& layout, const void* elements, DType computed) : data_(elements) {
  if (layout.dtype == computed && layout.contiguous()) return;
  const auto count = element_count(layout.shape);
  copy_ = std::make_unique<AlignedBytes>(static_cast<std::size_t>(count) * dtype_size(computed));
  data_ = copy_->data();
  const TileSource source(layout);
  const auto load = elementwise_kernels().load[static_cast<int>(layout.dtype)];
  const auto size = static_cast<std::int64_t>(dtype_size(computed));
  constexpr std::int64_t tile = 1024;
  parallel_for((count + tile - 1) / tile, copy_grain / tile, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint64_t raw[tile];
    for (auto start = begin * tile; start < std::min(end * tile, count); start += tile) {
      const auto n = std::min(tile, count - start);
      char* target = copy_->data() + start * size;
      if (!load) {
        source.gather(elements, start, n, target);
      } else {
        source.gather(elements, start, n, raw);
        load(target, raw, nullptr, nullptr, n);
      }
    }
  });
}

DenseOutput::DenseOutput(const Layout& layout, void* elements, DType computed)
    : dtype_(layout.dtype), count_(element_count(layout.shape)), elements_(elements), data_(elements) {
  if (layout.dtype == computed) return;
  copy_ = std::make_unique<AlignedBytes>(static_cast<std::size_t>(count_) * dtype_size(computed));
  data_ = copy_->data();
}

void DenseOutput::store() const {
  if (!copy_) return;
  const auto convert = elementwise_kernels().store[static_cast<int>(dtype_)];
  parallel_for(count_, copy_grain, [&](std::int64_t begin, std::int64_t end) {
    convert(static_cast<char*>(elements_) + begin * static_cast<std::int64_t>(dtype_size(dtype_)),
            copy_->data() + begin * 4, nullptr, nullptr, end - begin);
  });
}

}  // namespace hearth::cpu
