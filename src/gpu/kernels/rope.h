// Rotary position embedding: a rotation of every row, by angles from a table or computed on the way.
#pragma once

#include "math.h"
#include "packet.h"

DEVICE f32 cosine_of_half_turns(f32 x) { return ::cospif(x); }
DEVICE f64 cosine_of_half_turns(f64 x) { return ::cospi(x); }
DEVICE f32 sine_of_half_turns(f32 x) { return ::sinpif(x); }
DEVICE f64 sine_of_half_turns(f64 x) { return ::sinpi(x); }

// Where the angles come from: a frequency for each pair, the power of a base where `frequencies` is null.
// `direction` is 1, or -1 to undo a rotation.
struct RopeTurns {
  const i64* positions;
  i64 position_step;
  const f64* frequencies;
  i64 frequency_step;
  f64 base, direction;
  u64 half;

  // Of pair i, per position.
  DEVICE f64 turns(u64 i) const {
    const f64 frequency =
        frequencies ? frequencies[(i64)i * frequency_step] : ::pow(base, -(f64)i / (f64)half);
    return frequency * direction * 0.15915494309189533577;
  }
  // Whole turns are taken off in f64, so that far positions keep their digits.
  template <class C>
  DEVICE void at(u64 time, f64 turns_each, C& cosine, C& sine) const {
    const f64 angle = (f64)positions[(i64)time * position_step] * turns_each;
    const C half_turns = (C)(2 * (angle - math::round(angle)));
    cosine = cosine_of_half_turns(half_turns);
    sine = sine_of_half_turns(half_turns);
  }
};

// Cosine and sine for each of `time` positions and each pair, those of a position in a row.
template <class C>
DEVICE void rope_angles(const RopeTurns& turns, C* cosine, C* sine, u64 time) {
  constexpr u64 run = 16;  // positions that share the power
  const u64 runs = (time + run - 1) / run;
  for (u64 item = global_thread(); item < runs * turns.half; item += global_threads()) {
    const u64 i = item % turns.half, first = item / turns.half * run;
    const f64 each = turns.turns(i);
    for (u64 t = first; t < first + run && t < time; ++t)
      turns.at(t, each, cosine[t * turns.half + i], sine[t * turns.half + i]);
  }
}

// The angles of P neighbouring pairs: from a table, or computed where they are needed.
template <class C>
struct RopeTable {
  const C *cosine, *sine;
  u64 half;
  template <int P>
  DEVICE void read(u64 time, u64 i, C (&c)[P], C (&s)[P]) const {
    read_packet<P>(cosine, 1, (i64)(time * half + i), c);
    read_packet<P>(sine, 1, (i64)(time * half + i), s);
  }
};
template <class C>
struct RopeComputed {
  RopeTurns turns;
  template <int P>
  DEVICE void read(u64 time, u64 i, C (&c)[P], C (&s)[P]) const {
#pragma unroll
    for (int e = 0; e < P; ++e) turns.at(time, turns.turns(i + e), c[e], s[e]);
  }
};

struct EveryRow {
  DEVICE bool operator()(u64) const { return true; }
};

// Rotates the pairs (i, i + half) of every row, or (2 i, 2 i + 1) if INTERLEAVED; P pairs at a time. A row
// may be written where it was. Rows that do not turn are copied.
template <class S, class C, int P, bool INTERLEAVED, class Index, class RowAt, class ToAt, class TimeOf,
          class Angles, class Turns = EveryRow>
DEVICE void rope_rotate(RowAt row_at, i64 step, ToAt to_at, TimeOf time_of, const Angles& angles, u64 rows,
                        u64 half, Turns turns = {}) {
  const Index per_row = half / P, items = rows * per_row;
  for (Index item = global_thread(); item < items; item += global_threads()) {
    const Index row = item / per_row, i = item % per_row * P;
    const S* from = row_at(row);
    S* to = to_at(row);
    C a[P], b[P], c[P], s[P];
    const bool turned = turns(row);
    if (turned) angles.read(time_of(row), i, c, s);
    if constexpr (!INTERLEAVED) {
      read_packet<P>(from, step, i, a);
      read_packet<P>(from, step, i + half, b);
    } else if constexpr (P == 1) {
      read_packet<1>(from, step, 2 * i, a);
      read_packet<1>(from, step, 2 * i + 1, b);
    } else {
      C both[2 * P];
      read_packet<2 * P>(from, 1, 2 * i, both);
#pragma unroll
      for (int e = 0; e < P; ++e) {
        a[e] = both[2 * e];
        b[e] = both[2 * e + 1];
      }
    }
    if (turned)
#pragma unroll
      for (int e = 0; e < P; ++e) {
        const C first = a[e] * c[e] - b[e] * s[e], second = a[e] * s[e] + b[e] * c[e];
        a[e] = first;
        b[e] = second;
      }
    if constexpr (!INTERLEAVED) {
      write_packet<P>(to + i, a);
      write_packet<P>(to + i + half, b);
    } else {
      C both[2 * P];
#pragma unroll
      for (int e = 0; e < P; ++e) {
        both[2 * e] = a[e];
        both[2 * e + 1] = b[e];
      }
      if constexpr (P == 1) {
        write_packet<1>(to + 2 * i, a);
        write_packet<1>(to + 2 * i + 1, b);
      } else {
        write_packet<2 * P>(to + 2 * i, both);
      }
    }
  }
}
