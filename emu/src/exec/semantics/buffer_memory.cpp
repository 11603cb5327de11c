// Instructions on buffers: memory behind a descriptor of four scalar registers, with a range check. gfx90a
// and gfx1030 reach scratch this way.
#include "exec/apertures.h"
#include "exec/semantics/atomics.h"

namespace hipemu::semantics {
namespace {

struct Descriptor {
  uint64_t base;
  uint32_t stride, records;
  uint32_t element_bytes;  // 0: not swizzled
  uint32_t index_stride;
  bool add_lane;
  enum class Range : uint8_t { bytes, index_and_offset, index, nothing } range;
};

Descriptor read_descriptor(const Wave& wave, const Operation& op) {
  const uint32_t index = op.source[base_source].index;
  const uint32_t word1 = wave.get_scalar(index + 1), word3 = wave.get_scalar(index + 3);
  const auto generation = static_cast<Generation>(op.immediate);
  Descriptor descriptor;
  descriptor.base = wave.get_scalar64(index) & 0xffffffffffffull;
  descriptor.stride = word1 >> 16 & 0x3fff;
  descriptor.records = wave.get_scalar(index + 2);
  descriptor.index_stride = 8u << (word3 >> 21 & 3);
  descriptor.add_lane = (word3 >> 23 & 1) != 0;
  if (generation >= Generation::gfx11) {
    const uint32_t size = word1 >> 30;
    descriptor.element_bytes = size == 0 ? 0 : 2u << size;
  } else {
    descriptor.element_bytes = word1 >> 31 != 0 ? 4 : 0;
  }
  using Range = Descriptor::Range;
  if (generation == Generation::gfx9) {
    const bool indexed = descriptor.element_bytes != 0 || (op.flags & memory_flag::index_enabled) != 0;
    descriptor.range = descriptor.stride == 0 || !indexed ? Range::bytes
                       : descriptor.element_bytes != 0    ? Range::index_and_offset
                                                          : Range::index;
  } else {
    constexpr Range by_selection[] = {Range::index_and_offset, Range::index, Range::nothing, Range::bytes};
    descriptor.range = by_selection[word3 >> 28 & 3];
    // Records of no size are bytes.
    if (descriptor.stride == 0 && descriptor.range != Range::nothing) descriptor.range = Range::bytes;
  }
  return descriptor;
}

// The lanes that only some dwords of are in range: those read memory, the others zero.
template <int W>
void access_partly(Wave& wave, const Operation& op, const Body<W>& body, const uint64_t (&address)[W],
                   const uint32_t (&bytes)[W], uint64_t mask) {
  if (body.kind == AccessKind::atomic) {
    access_nothing<W>(wave, op, body, mask);
    return;
  }
  for_each_lane(mask, [&](int lane) {
    if (AllocationCache::of_this_thread().find(address[lane], bytes[lane]) == nullptr)
      fail_global(address[lane], bytes[lane], body.kind, lane);
    alignas(16) std::byte staging[16] = {};
    uint32_t offsets[W] = {};
    auto* memory = reinterpret_cast<std::byte*>(address[lane]);
    if (body.kind == AccessKind::load) std::memcpy(staging, memory, bytes[lane]);
    body.run(wave, op, {staging, offsets, 1ull << lane, Pattern::any});
    if (body.kind == AccessKind::store) std::memcpy(memory, staging, bytes[lane]);
  });
}

}  // namespace

template <int W>
void Buffer::each(Wave& wave, const Operation& op, const Body<W>& body) {
  const uint64_t mask = active_lanes<W>(wave);
  if (mask == 0) return;
  const Descriptor descriptor = read_descriptor(wave, op);
  static constexpr uint32_t zeros[W] = {};
  const uint32_t* index = zeros;
  const uint32_t* offset = zeros;
  uint32_t row = op.source[address_source].index;
  if ((op.flags & memory_flag::index_enabled) != 0) index = wave.row(row++);
  if ((op.flags & memory_flag::offset_enabled) != 0) offset = wave.row(row);
  const Source& scalar_part = op.source[scalar_offset_source];
  const uint32_t scalar_offset = scalar_part.from == From::scalar ? wave.get_scalar(scalar_part.index)
                                                                  : static_cast<uint32_t>(scalar_part.bits);
  const bool swizzled = descriptor.element_bytes != 0;

  if (swizzled && descriptor.add_lane && wave.scratch_size != 0 &&
      descriptor.base == reinterpret_cast<uint64_t>(wave.scratch)) {
    // The scalar offset counts bytes of all lanes together.
    access_scratch<W>(wave, op, body, offset, static_cast<uint32_t>(op.offset) + scalar_offset / W, mask);
    return;
  }

  // 1. Where each lane goes, and how many of its bytes are in range.
  uint64_t address[W];
  uint32_t in_range[W];
  uint64_t whole = 0, part = 0;
  for_each_lane(mask, [&](int lane) {
    const uint64_t record =
        static_cast<uint64_t>(index[lane]) + (descriptor.add_lane ? static_cast<uint32_t>(lane) : 0u);
    const uint64_t within = static_cast<uint64_t>(offset[lane]) + static_cast<uint64_t>(op.offset);
    uint64_t place = record * descriptor.stride + within;
    if (swizzled) {
      const uint64_t group = record / descriptor.index_stride, member = record % descriptor.index_stride;
      const uint64_t element = within / descriptor.element_bytes, byte = within % descriptor.element_bytes;
      place = (group * descriptor.stride + element * descriptor.element_bytes) * descriptor.index_stride +
              member * descriptor.element_bytes + byte;
    }
    uint64_t available = body.bytes;
    switch (descriptor.range) {
      case Descriptor::Range::bytes: {
        const uint64_t end = static_cast<uint64_t>(scalar_offset) + place;
        available = end < descriptor.records ? descriptor.records - end : 0;
        break;
      }
      case Descriptor::Range::index_and_offset:
        if (record >= descriptor.records || within + body.bytes > descriptor.stride) available = 0;
        break;
      case Descriptor::Range::index:
        if (record >= descriptor.records) available = 0;
        break;
      case Descriptor::Range::nothing:
        if (descriptor.records == 0) available = 0;
        break;
    }
    address[lane] = descriptor.base + scalar_offset + place;
    if (available >= body.bytes) {
      whole |= 1ull << lane;
    } else if (available >= 4) {
      in_range[lane] = static_cast<uint32_t>(available & ~3ull);
      part |= 1ull << lane;
    }
  });

  // 2. Out of range: zeros.
  access_nothing<W>(wave, op, body, mask & ~whole & ~part);
  if (part != 0) access_partly<W>(wave, op, body, address, in_range, part);

  // 3. The rest, by the high half of the address.
  while (whole != 0) {
    const uint64_t high = address[std::countr_zero(whole)] >> 32;
    Lanes<W> low{};
    uint64_t group = 0;
    for_each_lane(whole, [&](int lane) {
      if (address[lane] >> 32 != high) return;
      group |= 1ull << lane;
      low.lane[lane] = static_cast<uint32_t>(address[lane]);
    });
    whole &= ~group;
    access_global<W>(wave, op, body, high << 32, low.lane, group);
  }
}
template void Buffer::each<32>(Wave&, const Operation&, const Body<32>&);
template void Buffer::each<64>(Wave&, const Operation&, const Body<64>&);

namespace {

// vdata, vaddr or off, srsrc, soffset. With lds, and for buffer_load_lds, there is no vdata.
void read_operands(const Instruction& instruction, const Chip& chip, Operation& op, std::size_t address) {
  expect_operands(instruction, address + 3, address + 3);
  read_memory_modifiers(instruction, op);
  op.source[address_source] = optional_vector_source(instruction, address);
  if (instruction.operands[address + 1].kind != TextOperand::Kind::scalar ||
      instruction.operands[address + 1].count != 4)
    throw std::invalid_argument("a buffer descriptor is four scalar registers");
  op.source[base_source].from = From::scalar;
  op.source[base_source].index = instruction.operands[address + 1].index;
  op.source[scalar_offset_source] = optional_scalar_source(instruction, address + 2);
  if (instruction.has("idxen")) op.flags |= memory_flag::index_enabled;
  if (instruction.has("offen")) op.flags |= memory_flag::offset_enabled;
  op.immediate = static_cast<int64_t>(chip.generation);
}

void prepare_load(const Instruction& instruction, const Chip& chip, Operation& op) {
  if (instruction.has("lds")) {
    read_operands(instruction, chip, op, 0);
    op.flags |= memory_flag::to_lds;
    return;
  }
  read_operands(instruction, chip, op, 1);
  op.destination[0] = vector_destination(instruction, 0);
}
void prepare_load_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_load(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}
void prepare_load_to_lds(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_operands(instruction, chip, op, 0);
  op.flags |= memory_flag::to_lds;
}
void prepare_store(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_operands(instruction, chip, op, 1);
  op.source[data_source] = vector_source(instruction, 0);
}
void prepare_store_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_store(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}

// The data register also takes the result.
template <int Compare>
void prepare_atomic(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_operands(instruction, chip, op, 1);
  op.flags &= ~memory_flag::synchronising;
  const std::string* hint = instruction.find("th");
  if (instruction.has("glc") || instruction.has("sc0") ||
      (hint != nullptr && hint->find("RETURN") != std::string::npos))
    op.flags |= memory_flag::returns;
  op.source[data_source] = vector_source(instruction, 0);
  op.destination[0] = vector_destination(instruction, 0);
  if constexpr (Compare != 0) {
    op.source[second_data_source] = op.source[data_source];
    op.source[second_data_source].index += Compare;
  }
}

// A load that can go to LDS instead, by a modifier.
template <class Action, class T>
struct LoadOrTransfer {
  template <int W>
  static void run(Wave& wave, const Operation& op) {
    if ((op.flags & memory_flag::to_lds) != 0)
      Buffer::each<W>(wave, op, LoadToLds<T>::template body<W>);
    else
      Buffer::each<W>(wave, op, Action::template body<W>);
  }
};

}  // namespace

void add_buffer_memory(Rows& rows) {
  const auto add = [&]<class Action>(Action, Prepare prepare, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(memory_row<Buffer, Action>(lasting_name("buffer_", name), Unit::global_memory, prepare));
  };
  const auto add_transferable = [&]<class T>(T, std::initializer_list<std::string_view> names,
                                             std::string_view to_lds) {
    using Both = LoadOrTransfer<LoadValue<T>, T>;
    for (const std::string_view name : names)
      rows.push_back(custom(lasting_name("buffer_", name), Unit::global_memory, Both::template run<32>,
                            Both::template run<64>, prepare_load));
    rows.push_back(custom(lasting_name("buffer_", to_lds), Unit::global_memory, Both::template run<32>,
                          Both::template run<64>, prepare_load_to_lds));
  };
  add_transferable(uint8_t{}, {"load_ubyte", "load_u8"}, "load_lds_u8");
  add_transferable(int8_t{}, {"load_sbyte", "load_i8"}, "load_lds_i8");
  add_transferable(uint16_t{}, {"load_ushort", "load_u16"}, "load_lds_u16");
  add_transferable(int16_t{}, {"load_sshort", "load_i16"}, "load_lds_i16");
  add_transferable(uint32_t{}, {"load_dword", "load_b32"}, "load_lds_b32");
  add(LoadHalf<uint8_t>(), prepare_load, {"load_ubyte_d16", "load_d16_u8"});
  add(LoadHalf<int8_t>(), prepare_load, {"load_sbyte_d16", "load_d16_i8"});
  add(LoadHalf<uint16_t>(), prepare_load, {"load_short_d16", "load_d16_b16"});
  add(LoadHalf<uint8_t>(), prepare_load_high, {"load_ubyte_d16_hi", "load_d16_hi_u8"});
  add(LoadHalf<int8_t>(), prepare_load_high, {"load_sbyte_d16_hi", "load_d16_hi_i8"});
  add(LoadHalf<uint16_t>(), prepare_load_high, {"load_short_d16_hi", "load_d16_hi_b16"});
  add(LoadDwords<2>(), prepare_load, {"load_dwordx2", "load_b64"});
  add(LoadDwords<3>(), prepare_load, {"load_dwordx3", "load_b96"});
  add(LoadDwords<4>(), prepare_load, {"load_dwordx4", "load_b128"});
  add(StoreValue<uint8_t>(), prepare_store, {"store_byte", "store_b8"});
  add(StoreValue<uint16_t>(), prepare_store, {"store_short", "store_b16"});
  add(StoreValue<uint8_t>(), prepare_store_high, {"store_byte_d16_hi", "store_d16_hi_b8"});
  add(StoreValue<uint16_t>(), prepare_store_high, {"store_short_d16_hi", "store_d16_hi_b16"});
  add(StoreValue<uint32_t>(), prepare_store, {"store_dword", "store_b32"});
  add(StoreDwords<2>(), prepare_store, {"store_dwordx2", "store_b64"});
  add(StoreDwords<3>(), prepare_store, {"store_dwordx3", "store_b96"});
  add(StoreDwords<4>(), prepare_store, {"store_dwordx4", "store_b128"});
  add_memory_atomics<Buffer>(rows, "buffer_atomic_",
                             {prepare_atomic<0>, prepare_atomic<1>, prepare_atomic<2>});
}

}  // namespace hipemu::semantics
