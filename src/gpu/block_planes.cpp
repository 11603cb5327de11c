// Between blocks and planes. The kernels that read planes are in kernels/quantised.h.
#include "gpu/block_planes.h"

#include <array>
#include <cstdint>
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

// The twelve bytes of q4_k and q5_k that have eight scales and eight offsets of six bits. In planes the
// scales of two neighbouring sub-blocks and then their offsets follow each other in 24 bits, of which each of
// three words has a byte: one byte for each two sub-blocks.
bool has_sub_scales(DType format) { return format == DType::q4_k || format == DType::q5_k; }
constexpr std::size_t first_sub_scale = 4;

using SubScales = std::array<std::uint8_t, 12>;

SubScales to_planes(const SubScales& block) {
  SubScales planes;
  for (unsigned pair = 0; pair < 4; ++pair) {
    std::uint32_t fields = 0;
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned sub = 2 * pair + i, early = sub % 4;
      const unsigned scale = sub < 4 ? block[sub] & 63 : (block[8 + early] & 15) | block[early] >> 6 << 4;
      const unsigned offset =
          sub < 4 ? block[4 + sub] & 63 : block[8 + early] >> 4 | block[4 + early] >> 6 << 4;
      fields |= scale << 6 * i | offset << (12 + 6 * i);
    }
    for (unsigned word = 0; word < 3; ++word)
      planes[4 * word + pair] = static_cast<std::uint8_t>(fields >> 8 * word);
  }
  return planes;
}

SubScales to_block(const SubScales& planes) {
  SubScales block{};
  for (unsigned sub = 0; sub < 8; ++sub) {
    const unsigned pair = sub / 2, early = sub % 4;
    const std::uint32_t fields =
        (planes[pair] | std::uint32_t{planes[4 + pair]} << 8 | std::uint32_t{planes[8 + pair]} << 16) >>
        6 * (sub % 2);
    const unsigned scale = fields & 63, offset = fields >> 12 & 63;
    const auto put = [&](unsigned at, unsigned bits) {
      block[at] = static_cast<std::uint8_t>(block[at] | bits);
    };
    if (sub < 4) {
      put(sub, scale);
      put(4 + sub, offset);
    } else {
      put(early, scale >> 4 << 6);
      put(4 + early, offset >> 4 << 6);
      put(8 + early, (scale & 15) | (offset & 15) << 4);
    }
  }
  return block;
}

// Of a block that is where it is to be.
template <typename Order>
void reorder_sub_scales(std::byte* block, Order order) {
  SubScales scales;
  std::memcpy(scales.data(), block + first_sub_scale, scales.size());
  scales = order(scales);
  std::memcpy(block + first_sub_scale, scales.data(), scales.size());
}

}  // namespace

void blocks_to_planes(DType format, const std::byte* blocks, std::byte* planes, std::size_t bytes) {
  const bool reorders = has_sub_scales(format);
  for_each_part(format, bytes, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::memcpy(planes + to, blocks + from, size);
    if (reorders) reorder_sub_scales(planes + to, to_planes);
  });
}
void planes_to_blocks(DType format, const std::byte* planes, std::byte* blocks, std::size_t bytes) {
  const bool reorders = has_sub_scales(format);
  for_each_part(format, bytes, [&](std::size_t to, std::size_t from, std::size_t size) {
    std::memcpy(blocks + to, planes + from, size);
    if (reorders) reorder_sub_scales(blocks + to, to_block);
  });
}

std::vector<std::size_t> plane_sizes(DType format) {
  std::vector<std::size_t> sizes;
  for (const Part& part : parts_of(format)) sizes.push_back(part.size);
  return sizes;
}

}  // namespace hearth::gpu
