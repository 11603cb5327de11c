// Sorting the lines of an array: the launches of kernels/sort.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/nest.h"

namespace hearth::gpu {

// As kernels/sort.h has them.
struct ValueKeys {
  const void* values;
  Nest<1> places;
  std::uint64_t length, flip;
};
struct PositionSink {
  void* out;
  Nest<1> places;
};
struct Runs {
  std::uint64_t length, count, width, line_pairs;
  std::uint64_t per_line() const { return (length + width - 1) / width; }
  std::uint64_t stride() const { return width < count ? width : count; }
};

class LineSort {
 public:
  // `keys`: the type in the kernel's text that gives keys, declared in the header `header`; keys and
  // positions fit in 32 bits unless `wide`. `positions`: the result is positions by a PositionSink, else
  // sorted pairs. `index` numbers the elements of a PositionSink.
  LineSort(GpuDevice& device, const char* header, const std::string& keys, bool wide, std::int64_t lines,
           std::int64_t length, std::int64_t count, bool positions, std::string_view index);

  std::size_t scratch_bytes() const;
  std::uint64_t line_pairs() const { return line_pairs_; }  // of the sorted pairs, from line to line

  // Gives the sorted pairs, which are in scratch memory.
  template <class Keys>
  const void* to_pairs(const Keys& keys, void* scratch) const {
    device_.launch(tiles_, tile_shape(), keys, scratch, widths_.front(), lines_);
    return merge(scratch, nullptr);
  }
  template <class Keys>
  void to_positions(const Keys& keys, const PositionSink& sink, void* scratch) const {
    if (widths_.size() == 1) {
      device_.launch(tiles_, tile_shape(), keys, sink, widths_.front(), lines_);
      return;
    }
    device_.launch(tiles_, tile_shape(), keys, scratch, widths_.front(), lines_);
    merge(scratch, &sink);
  }

 private:
  LaunchShape tile_shape() const;
  const void* merge(void* scratch, const PositionSink* sink) const;

  GpuDevice& device_;
  std::uint64_t lines_, line_pairs_ = 0, tile_, pair_bytes_;
  std::vector<Runs> widths_;  // after the sort of tiles, and after each merge
  Function tiles_, merge_, last_merge_;
};

}  // namespace hearth::gpu
