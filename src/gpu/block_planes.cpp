// Between blocks and planes. The kernels that read planes are in kernels/quantised.h.
#include "gpu/block_planes.h"

#include <cstring>
#include <span>

#include "base/thread_pool.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

struct Part {
  std::size_t first, size;  // in a block
};

// The parts of a block, in the order of their planes.
std::span<const Part> parts_of(DType format) {
  static constexpr Part q4_0[] = {{2, 16}, {0, 2}}, q4_1[] = {{4, 16}, {0, 4}};
  static constexpr Part q5_0[] = {{6, 16}, {2, 4}, {0, 2}}, q5_1[] = {{8, 16}, {4, 4}, {0, 4}};
  static constexpr Part q8_0[] = {{2, 32}, {0, 2}};
  static constexpr Part q2_k[] = {{0, 80}, {80, 4}}, q3_k[] = {{0, 96}, {96, 12}, {108, 2}};
  static constexpr Part q4_k[] = {{0, 144}}, q5_k[] = {{0, 176}}, q6_k[] = {{0, 208}, {208, 2}};
  static constexpr Part iq4_xs[] = {{8, 128}, {0, 8}};
  static constexpr Part mxfp4[] = {{1, 16}, {0, 1}};
  switch (format) {
    case DType::q4_0:
    case DType::iq4_nl:
      return q4_0;
    case DType::q4_1:
      return q4_1;
    case DType::q5_0:
      return q5_0;
    case DType::q5_1:
      return q5_1;
    case DType::q8_0:
      return q8_0;
    case DType::q2_k:
      return q2_k;
    case DType::q3_k:
      return q3_k;
    case DType::q4_k:
      return q4_k;
    case DType::q5_k:
      return q5_k;
    case DType::q6_k:
      return q6_k;
    case DType::iq4_xs:
      return iq4_xs;
    case DType::mxfp4:
      return mxfp4;
    default:
      throw DTypeError("[blocks] " + std::string(dtype_name(format)) + " is not a block format");
  }
}

// Calls move(place in blocks, place in planes, size) for each part of each block.
template <typename Move>
void for_each_part(DType format, std::size_t bytes, const Move& move) {
  const std::size_t size = block_bytes(format), count = bytes / size;
  parallel_for(static_cast<std::int64_t>(count), 1024, [&](std::int64_t begin, std::int64_t end) {
    std::size_t plane = 0;
    for (const Part& part : parts_of(format)) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        move(i * size + part.first, plane + i * part.size, part.size);
      plane += count * part.size;
    }
  });
}

}  // namespace

void blocks_to_planes(DType format, const std::byte* blocks, std::byte* planes, std::size_t bytes) {
  for_each_part(format, bytes, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::memcpy(planes + to, blocks + from, size);
  });
}
void planes_to_blocks(DType format, const std::byte* planes, std::byte* blocks, std::size_t bytes) {
  for_each_part(format, bytes, [&](std::size_t to, std::size_t from, std::size_t size) {
    std::memcpy(blocks + to, planes + from, size);
  });
}

std::vector<std::size_t> plane_sizes(DType format) {
  std::vector<std::size_t> sizes;
  for (const Part& part : parts_of(format)) sizes.push_back(part.size);
  return sizes;
}

}  // namespace hearth::gpu
