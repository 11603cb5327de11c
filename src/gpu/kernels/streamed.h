// Products of few rows for chips where copies into shared memory go on by themselves: weights are on their
// way long before they are needed, from before the kernel may look at x. Each wave has slots of its own, so
// that it waits for nobody else's copies.
#pragma once

#include "copy_ahead.h"
#include "quantised.h"

namespace streamed {

using quantised::Blocks;
using quantised::Rounding;

// ---- copies ----

// Addresses in shared memory, in as few registers as can be.
#ifdef HEARTH_AMD
template <class T>
using Shared = __attribute__((address_space(3))) T;
DEVICE u32 shared_address(const void* pointer) { return (u32)(u64)(const Shared<u8>*)pointer; }
DEVICE const u8* shared_pointer(u32 address) { return (const u8*)(const Shared<u8>*)address; }
DEVICE void store_shared(u32 to, u16 value) { *(Shared<u16>*)to = value; }
#else
DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }
DEVICE const u8* shared_pointer(u32 address) { return (const u8*)__cvta_shared_to_generic(address); }
DEVICE void store_shared(u32 to, u16 value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(value) : "memory");
}
#endif
// OFFSET bytes from both places on.
template <int BYTES, int OFFSET = 0>
DEVICE void copy(u32 to, const u8* from) {
#ifdef HEARTH_AMD  // nothing goes on by itself: for tests
#pragma unroll
  for (int at = OFFSET; at < OFFSET + BYTES; at += 4)
    *(Shared<u32>*)(to + at) = *reinterpret_cast<const u32*>(from + at);
#else
  if constexpr (BYTES == 16)  // past the first-level cache
    asm volatile("cp.async.cg.shared.global.L2::256B [%0 + %2], [%1 + %2], 16;" ::"r"(to), "l"(from),
                 "n"(OFFSET)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0 + %3], [%1 + %3], %2;" ::"r"(to), "l"(from), "n"(BYTES),
                 "n"(OFFSET)
                 : "memory");
#endif
}
// COUNT times UNIT bytes by the lanes of a wave, of which so many are `there`, unless WHOLE says that all
// are. Both places are the lane's own.
template <int UNIT, int COUNT, bool WHOLE, int FIRST = 0>
DEVICE void copy_units(u32 to, const u8* from, u32 own_lane, u32 there) {
  if ((FIRST + WAVE <= COUNT || FIRST + own_lane < COUNT) && (WHOLE || FIRST + own_lane < there))
    copy<UNIT, FIRST * UNIT>(to, from);
  if constexpr (FIRST + WAVE < COUNT) copy_units<UNIT, COUNT, WHOLE, FIRST + WAVE>(to, from, own_lane, there);
}
// ---- what a slot holds ----
//
// A portion of each of a wave's columns. Work has portions (of a row), a Cursor with which the next portion
// is found in memory, which advance() moves on within a column, copy(slot, cursor, portion) and
// multiply(sums, slot, portion), whose sums are in units of `unit`.

// Blocks: PAIRS pairs of runs for each lane, neighbours where those share scales. They lie as they do in
// memory, with planes of their own. WHOLE: rows are whole portions. APART: each run of x has a scale of its
// own, and a Rounding, whatever the format. PLANES: bytes of a block in each plane.
//
// Where all weights wait already, the instructions for a portion are what takes the time. So what is added to
// an address is known to the compiler where it can be, and the upper halves of bytes are multiplied where
// they are, as if they were sixteen times as large: sums are in units of `unit`, or what is added to them
// takes that away.
template <class Format, int ROWS, class Pairing, int THREADS, int PAIRS, bool WHOLE, bool APART, u32 TOGETHER,
          int... PLANES>
struct BlockPortions : quantised::WaveColumns<ROWS, Pairing, THREADS, TOGETHER> {
  static_assert(Pairing::count == 2 && (PAIRS == 1 || PAIRS == 2), "one or two");
  using Base = quantised::WaveColumns<ROWS, Pairing, THREADS, TOGETHER>;
  using typename Base::Total;
  static constexpr int columns_at_once = 2;
  static constexpr u32 portion = WAVE * 32 * PAIRS;
  static constexpr u32 pairs_in_block = Format::elements / 32;
  static constexpr int blocks_in_portion = portion / Format::elements;
  static constexpr int column_bytes = (blocks_in_portion * (PLANES + ...) + 15) / 16 * 16;
  static constexpr u32 slot_bytes = columns_at_once * column_bytes;
  static constexpr int upper = Format::nibbles ? 16 : 1;
  static constexpr bool neighbours = PAIRS == 2 && Format::pairs_share_scales;
  static constexpr f32 unit = neighbours ? 1 : 1.0f / upper;

  const Blocks& blocks;
  u32 portions, in_row;  // in_row: pairs
  u32 own_lane;          // kept, for it is part of the first addresses of a portion
  const u8* q;           // x as round_rows() leaves it
  const Rounding* roundings;

  DEVICE BlockPortions(const Blocks& from, const u8* bytes, const Rounding* scales, u32 row_count,
                       u32 column_count, u32 size, u32 shares)
      : Base(row_count, column_count, size, shares),
        blocks(from),
        own_lane(in_register(lane())),
        q(bytes),
        roundings(scales) {
    portions = (size + portion - 1) / portion;
    in_row = size / 32;
  }

  struct Cursor {
    u32 block;   // the first one of the next portion of the wave's first column
    bool alone;  // there is no other column
  };
  DEVICE Cursor cursor(u32 column, u32 number) const {
    const u32 row = this->weight_row(column, 0);
    return {row * (in_row / pairs_in_block) + number * blocks_in_portion,
            !Pairing::paired && row + 1 >= this->columns};
  }
  DEVICE void advance(Cursor& cursor) const { cursor.block += this->parts * blocks_in_portion; }

  DEVICE void copy(u32 slot, const Cursor& cursor, u32 number) const {
    const u32 blocks_in_row = in_row / pairs_in_block, left = blocks_in_row - number * blocks_in_portion;
    const u32 count = WHOLE || left > blocks_in_portion ? blocks_in_portion : left;
    const u32 apart = cursor.alone ? 0 : Pairing::apart(this->columns) * blocks_in_row;
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) {
      u32 before = 0;
      (copy_plane<PLANES>(slot + c * column_bytes, cursor.block + c * apart, count, before), ...);
    }
  }

  DEVICE void multiply(Total& sums, const u8* slot, u32 number) const {
    const u32 first = number * (WAVE * PAIRS), own = own_lane * (neighbours ? PAIRS : 1);
    if (!WHOLE && first + own >= in_row) return;
    // Which of two neighbours comes first, so that eight lanes at a time read from all banks.
    const u32 turn = neighbours ? own_lane / 4 % 2 : 0;
    u32 places[PAIRS];
    bool there[PAIRS];
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) {
      places[k] = neighbours ? own + (k ^ turn) : own + k * WAVE;
      there[k] = WHOLE || neighbours || k == 0 || first + places[k] < in_row;
      if (!there[k]) places[k] = own;
    }
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) {
      quantised::RunWords words[PAIRS][2];
      quantised::Scales scales[PAIRS][2];
      quantised::SubBlocks sub_blocks;  // instead of scales, for neighbours
#pragma unroll
      for (int k = 0; k < PAIRS; ++k) {
        const u32 block = (neighbours ? own : places[k]) / pairs_in_block;
        const auto held = Format::pair(Blocks{slot + c * column_bytes, blocks_in_portion}, block,
                                       places[k] % pairs_in_block);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if constexpr (Format::nibbles)
            words[k][half] = quantised::cut(held.q, 0, half == 0 ? 0x0f0f0f0fu : 0xf0f0f0f0u);
          else
            words[k][half] = Format::words(held, half);
        if constexpr (neighbours) {
          if (k == 0) sub_blocks = Format::sub_blocks(held);
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half)
            scales[k][half] = there[k] ? Format::scales(held, half) : quantised::Scales{0, 0};
        }
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const u32 row = (u32)r < this->rows ? r : 0;
        i32 dots[PAIRS][2] = {};
#pragma unroll
        for (int k = 0; k < PAIRS; ++k)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const auto x = quantised::packet(q + row * this->depth + half * (this->depth / 2) +
                                             (first + places[k]) * 16);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const u32 bytes = words[k][half].q[i];
              i32& dot = dots[k][half];
              dot = Format::nibbles && half == 1 ? dot4_unsigned(bytes, (i32)x.element[i], dot)
                                                 : dot4((i32)bytes, (i32)x.element[i], dot);
            }
          }
        f32& sum = sums.of[r * columns_at_once + c];
        if constexpr (neighbours)
          add_sub_blocks(sum, dots, sub_blocks, row, first, places);
        else
          add(sum, dots, scales, row, first, places);
      }
    }
  }

 private:
  static constexpr int unit_of(int bytes) { return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4; }
  template <int SIZE>
  DEVICE void copy_plane(u32 column, u32 block, u32 count, u32& before) const {
    constexpr int bytes = blocks_in_portion * SIZE, unit = unit_of(bytes);
    const u8* const from = unit % SIZE == 0 ? blocks.part(block + own_lane * (unit / SIZE), before, SIZE)
                                            : blocks.part(block, before, SIZE) + own_lane * unit;
    copy_units<unit, bytes / unit, WHOLE>(column + blocks_in_portion * before + own_lane * unit, from,
                                          own_lane, count * SIZE / unit);
    before += SIZE;
  }

  DEVICE void add_scaled(f32& sum, i32 dot, const quantised::Scales& scales, const Rounding& rounding) const {
    if constexpr (Format::has_offset &&
                  !quantised::has_middle<Format>) {  // the offset follows from the scale
      constexpr f32 zero = upper * Format::zero;
      sum = ::fmaf(scales.scale, ::fmaf(rounding.scale, (f32)dot, -zero * rounding.sum), sum);
    } else {
      sum = ::fmaf(scales.scale * rounding.scale, (f32)dot, sum);
      if constexpr (Format::has_offset) sum = ::fmaf(-scales.offset, upper * rounding.sum, sum);
    }
  }
  // Dots of runs that share both scales, those of a pair, are added as integers.
  DEVICE void add(f32& sum, const i32 (&dots)[PAIRS][2], const quantised::Scales (&scales)[PAIRS][2], u32 row,
                  u32 first, const u32 (&places)[PAIRS]) const {
    if constexpr (quantised::one_rounding<Format> && !APART) {
#pragma unroll
      for (int k = 0; k < PAIRS; ++k)
        add_scaled(sum, dots[k][0] * upper + dots[k][1], scales[k][0],
                   roundings[row * in_row + first + places[k]]);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Rounding* const of_half = roundings + (row * 2 + half) * in_row + first;
#pragma unroll
        for (int k = 0; k < PAIRS; ++k)
          add_scaled(sum, dots[k][half] * (half == 0 ? upper : 1), scales[k][half], of_half[places[k]]);
      }
    }
  }
  // Of pairs that have the same two sub-blocks. A field from bit b on is converted as it is, 2^b times too
  // large, and the factor of x is as much smaller, for all columns at once.
  DEVICE void add_sub_blocks(f32& sum, const i32 (&dots)[PAIRS][2], const quantised::SubBlocks& of, u32 row,
                             u32 first, const u32 (&places)[PAIRS]) const {
    f32 scaled = 0, offset = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Rounding* const of_half = roundings + (row * 2 + half) * in_row + first;
      const int field = 6 * half;
      const f32 dot_unit = 1.0f / ((1 << field) * (half == 1 ? upper : 1));
      constexpr f32 offset_unit = 1.0f / (1 << 12);
      f32 product, x_sum;
      if constexpr (APART) {
        const Rounding one = of_half[places[0]], other = of_half[places[1]];
        product =
            ::fmaf(one.scale * dot_unit, (f32)dots[0][half], other.scale * dot_unit * (f32)dots[1][half]);
        x_sum = one.sum + other.sum;
      } else {
        const auto both = *reinterpret_cast<const Packet<Rounding, 2>*>(of_half + own_lane * PAIRS);
        product = both.element[0].scale * dot_unit * (f32)(dots[0][half] + dots[1][half]);
        x_sum = both.element[0].sum + both.element[1].sum;
      }
      scaled = ::fmaf((f32)(of.fields & 63u << field), product, scaled);
      offset = ::fmaf((f32)(of.fields & 63u << (12 + field)), x_sum * (offset_unit / (1 << field)), offset);
    }
    sum = ::fmaf(of.scale, scaled, sum);
    sum = ::fmaf(-of.offset, offset, sum);
  }
};

// Weights in 16 bits, eight neighbours for each lane; x in f32, the first four of all eights and then the
// others, so that lanes read neighbours. WHOLE: eights are aligned.
template <class T, bool WHOLE, int ROWS, class Pairing, int THREADS>
struct HalfPortions : quantised::WaveColumns<ROWS, Pairing, THREADS> {
  static_assert(Pairing::count == 2, "two columns");
  using Base = quantised::WaveColumns<ROWS, Pairing, THREADS>;
  using typename Base::Total;
  static constexpr int columns_at_once = 2, length = 8;
  static constexpr u32 portion = WAVE * length;
  static constexpr int column_bytes = portion * 2;
  static constexpr u32 slot_bytes = columns_at_once * column_bytes;
  static constexpr f32 unit = 1;

  const T* weights;
  i64 row_stride;
  u32 portions;
  const f32* x;

  DEVICE HalfPortions(const T* from, i64 stride, const f32* numbers, u32 row_count, u32 column_count,
                      u32 size, u32 shares)
      : Base(row_count, column_count, size, shares), weights(from), row_stride(stride), x(numbers) {
    portions = (size + portion - 1) / portion;
  }

  struct Cursor {
    const T* at[columns_at_once];  // the lane's
  };
  DEVICE Cursor cursor(u32 column, u32 number) const {
    const u32 k = number * portion + lane() * length;
    return {{weights + this->weight_row(column, 0) * row_stride + k,
             weights + this->weight_row(column, 1) * row_stride + k}};
  }
  DEVICE void advance(Cursor& cursor) const {
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) cursor.at[c] += this->parts * portion;
  }

  DEVICE void copy(u32 slot, const Cursor& cursor, u32 number) const {
    if (number * portion + lane() * length >= this->depth) return;
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) {
      const u32 to = slot + c * column_bytes + lane() * 16;
      if constexpr (WHOLE)
        streamed::copy<16>(to, reinterpret_cast<const u8*>(cursor.at[c]));
      else
        for (int e = 0; e < length; ++e) store_shared(to + 2 * e, cursor.at[c][e].bits);
    }
  }

  DEVICE void multiply(Total& sums, const u8* slot, u32 number) const {
    const u32 depth = this->depth, place = number * WAVE + lane();
    if (place * length >= depth) return;
    f32 w[columns_at_once][length];
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) {
      const auto packet = bit_cast<Packet<T, length>>(
          *reinterpret_cast<const Unit16*>(slot + c * column_bytes + lane() * 16));
#pragma unroll
      for (int e = 0; e < length; ++e) w[c][e] = load(packet.element[e]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const f32* const row = x + ((u32)r < this->rows ? r : 0) * depth + place * 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto numbers = *reinterpret_cast<const Packet<f32, 4>*>(row + half * (depth / 2));
#pragma unroll
        for (int c = 0; c < columns_at_once; ++c)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            f32& sum = sums.of[r * columns_at_once + c];
            sum = ::fmaf(w[c][half * 4 + e], numbers.element[e], sum);
          }
      }
    }
  }
};

// x for HalfPortions.
template <class X, bool WHOLE, class Prepare>
DEVICE void place_rows(const quantised::Operand<X, WHOLE>& x, Prepare& prepare, f32* to) {
  quantised::prepare_rows(x, prepare, threadIdx.x, blockDim.x,
                          [&](u32 row, u32 k, const Packet<f32, 4>& numbers, bool there) {
                            f32* const at = to + row * x.depth + k / 4 % 2 * (x.depth / 2) + k / 8 * 4;
                            if (there) *reinterpret_cast<Packet<f32, 4>*>(at) = numbers;
                          });
}

// x for BlockPortions, from the kernel before (rounded_rows.h), by all threads; RUN of its neighbours share a
// scale, 32 as round_rows() has it or 16, which then are APART. What is on its way moves through registers,
// as in quantised::prepare_rows().
template <class Format, u32 RUN, class Prepare>
DEVICE void take_rows(const u8* x, u32 rows, u32 depth, Prepare& prepare, u8* q, Rounding* roundings) {
  constexpr u32 parts = RUN / 16;
  constexpr int ahead = 2;
  static_assert(parts == 1 || parts == 2, "a run or two");
  constexpr bool one_rounding = parts == 2 && quantised::one_rounding<Format>;
  const auto* const notes = reinterpret_cast<const rounded::Note*>(x + rows * depth);
  const u32 in_row = depth / RUN, count = rows * in_row;
  struct Taken {
    rounded::Note note;
    Packet<u32, 4> bytes[parts];
  };
  const auto take = [&](u32 number) {
    Taken taken{notes[number], {}};
#pragma unroll
    for (u32 part = 0; part < parts; ++part)
      taken.bytes[part] = bit_cast<Packet<u32, 4>>(reinterpret_cast<const Unit16*>(x)[number * parts + part]);
    return taken;
  };
  Taken next[ahead] = {};
#pragma unroll
  for (int i = 0; i < ahead; ++i)
    if (threadIdx.x + i * blockDim.x < count) next[i] = take(threadIdx.x + i * blockDim.x);
#pragma unroll 1
  for (u32 number = threadIdx.x; number < count; number += blockDim.x) {
    const Taken taken = next[0];
#pragma unroll
    for (int i = 1; i < ahead; ++i) next[i - 1] = next[i];
    if (number + ahead * blockDim.x < count) next[ahead - 1] = take(number + ahead * blockDim.x);
    const u32 row = rows == 1 ? 0 : number / in_row, run = (number - row * in_row) * parts;
    i32 sum = 0;
#pragma unroll
    for (u32 part = 0; part < parts; ++part) {
      const quantised::RunPlace place = quantised::place_of<Format>(run + part);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum = dot4(0x01010101, (i32)taken.bytes[part].element[i], sum);
      *reinterpret_cast<Packet<u32, 4>*>(q + row * depth + place.half * (depth / 2) + place.pair * 16) =
          taken.bytes[part];
      if (one_rounding && part == 0) continue;
      const u32 at = one_rounding ? row : row * 2 + place.half;
      roundings[at * (depth / 32) + place.pair] = {taken.note.scale, taken.note.scale * (f32)sum};
      sum = 0;
    }
    prepare.note(row, taken.note.squares);
  }
  prepare.publish();
}

// ---- the product ----

// The portions of a wave in the order in which it multiplies them.
template <class Work, int SLOTS>
class Stream {
 public:
  // `shared`: SLOTS for each wave.
  DEVICE Stream(const Work& work, u8* shared)
      : work_(work),
        slots_(in_register(shared_address(shared) + wave() * (SLOTS * Work::slot_bytes))),
        column_(work.first),
        portion_(work.part),
        cursor_(work.cursor(work.first, work.part)) {}

  // All lanes have read what the slot held.
  DEVICE void fill(int slot) {
    if (column_ < work_.end) {
      // There may be fewer portions than waves that share them.
      if (portion_ < work_.portions) work_.copy(slots_ + slot * Work::slot_bytes, cursor_, portion_);
      portion_ += work_.parts;
      if (portion_ < work_.portions) {
        work_.advance(cursor_);
      } else {
        portion_ = work_.part;
        column_ += work_.stride;
        cursor_ = work_.cursor(column_, portion_);
      }
    }
    end_of_copies();
  }
  // The oldest slot is the one to be filled next.
  DEVICE const u8* wait(int slot) const {
    wait_for_copies<SLOTS - 1>();
    wave_barrier();  // for all lanes
    return shared_pointer(slots_ + slot * Work::slot_bytes);
  }

 private:
  const Work& work_;
  u32 slots_;             // their address
  u32 column_, portion_;  // to be copied next
  typename Work::Cursor cursor_;
};

// As quantised::multiply_few(). `prepare` is called when the first weights are on their way; x is there
// afterwards, and it returns the factor of row lane() / side. One loop does all of it, for fewer instructions
// (as prepare_rows() in quantised.h).
template <int SLOTS, class Work, class Prepare, class Finish>
DEVICE void multiply(const Work& work, u8* shared, Prepare prepare, Finish finish) {
  Stream<Work, SLOTS> stream(work, shared);
  // Of two or three slots one is still empty when x is looked for: on an H200, tokens of q4_0 and q4_k were
  // 0.3 to 2 % faster so.
  constexpr int still_empty = SLOTS <= 3 ? 1 : 0;
  u32 column = work.first, portion = work.part;
  int slot = 0, empty = SLOTS;
  f32 factor = 1;
  finish.start(0, 0);
  typename Work::Total sums = {};
#pragma unroll 1
  for (u32 base = work.begin; base < work.end;) {
    if (empty == 0) {
      const u8* const weights = stream.wait(slot);
      if (column < work.end && portion < work.portions) work.multiply(sums, weights, portion);
      wave_barrier();
    }
    stream.fill(slot);
    slot = slot + 1 == SLOTS ? 0 : slot + 1;
    if (empty > 0) {
      if (--empty == still_empty) factor = prepare();
      continue;
    }
    portion += work.parts;
    if (portion < work.portions) continue;
    work.finish(sums, column, factor * Work::unit, finish);
    sums = {};
    portion = work.part;
    column += work.stride;
    base += work.stride;
  }
}

}  // namespace streamed
