// Control flow: divergence, loops, calls, recursion, pointers to functions, memory on the stack.
#include "../prelude.h"

constexpr int n = 300;

#define NOT_INLINE __attribute__((noinline))

KERNEL nested_branches(u32* result, const i32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const i32 value = values[i];
  u32 path = 1;
  if (value > 0) {
    path = path * 3 + 1;
    if ((value & 1) != 0) {
      path = path * 5;
      if (value > 1000)
        path += 7;
      else
        path -= 2;
    } else if (value % 3 == 0) {
      path ^= 0xff;
    }
  } else if (value == 0) {
    path = 99;
  } else {
    path += 1000;
    if (value < -1000 && (i & 1) != 0) path *= 2;
  }
  result[i] = path;
}
CASE(nested_branches, over(n), out<u32>(n), any<i32>(n), n)

KERNEL divergent_loop(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 steps = 0;
  for (u32 value = (values[i] & 0xffff) | 1; value != 1 && steps < 300; ++steps)
    value = (value & 1) != 0 ? 3 * value + 1 : value / 2;
  result[i] = steps;
}
CASE(divergent_loop, over(n), out<u32>(n), any<u32>(n), n)

KERNEL break_and_continue(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 sum = 0;
  for (int k = 0; k < 20; ++k) {
    const u32 value = values[(i + k) % count];
    if ((value & 3) == 0) continue;
    if ((value & 0x1f) == 0x1f) break;
    for (u32 j = 0; j < (value & 7); ++j) {
      if (j == 5) break;
      sum += j * value;
    }
    sum ^= value;
  }
  result[i] = sum;
}
CASE(break_and_continue, over(n), out<u32>(n), any<u32>(n), n)

KERNEL early_return(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = 1;
  if ((values[i] & 1) != 0) return;
  result[i] = 2;
  for (u32 k = 0; k < 10; ++k) {
    if ((values[i] >> k & 7) == 5) return;
    result[i] += k;
  }
}
CASE(early_return, over(n), out<u32>(n), any<u32>(n), n)

KERNEL do_while(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 value = values[i], rounds = 0;
  do {
    value = value * 1664525u + 1013904223u;
    if (++rounds == 50) break;
  } while ((value >> 28) != 7);
  result[i] = value + rounds;
}
CASE(do_while, over(n), out<u32>(n), any<u32>(n), n)

KERNEL jumps(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 state = values[i] & 3, work = 0;
again:
  if (++work > 40) goto end;
  if (state == 0) {
    state = values[(i + work) % count] & 3;
    goto again;
  }
  if (state == 1) goto third;
  if (state == 2) {
    state = 0;
    goto again;
  }
  state = 1;
  goto again;
third:
  work += 10;
  if (work < 30) {
    state = 3;
    goto again;
  }
end:
  result[i] = work * 10 + state;
}
CASE(jumps, over(n), out<u32>(n), any<u32>(n), n)

KERNEL switch_table(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 value = values[i];
  u32 out_value = 0;
  switch (value % 13) {
    case 0:
      out_value = value + 1;
      break;
    case 1:
      out_value = value * 3;
      break;
    case 2:
      out_value = value ^ 0xabcdef;
      [[fallthrough]];
    case 3:
      out_value += 17;
      break;
    case 4:
      out_value = value / 7;
      break;
    case 5:
      out_value = value << 5;
      break;
    case 6:
      out_value = value >> 3;
      break;
    case 7:
      out_value = ~value;
      break;
    case 9:
      out_value = value % 100;
      break;
    case 10:
      out_value = value * value;
      break;
    case 11:
      result[i] = 5;
      return;
    default:
      out_value = 1;
  }
  result[i] = out_value;
}
CASE(switch_table, over(n), out<u32>(n), any<u32>(n), n)

KERNEL switch_uniform(u32* result, int which, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  switch (which) {
    case 0:
      result[i] = 1;
      break;
    case 1:
      result[i] = static_cast<u32>(i);
      break;
    case 2:
      result[i] = static_cast<u32>(i * i);
      break;
    case 3:
      result[i] = static_cast<u32>(i / 3);
      break;
    case 4:
      result[i] = static_cast<u32>(i % 5);
      break;
    default:
      result[i] = 77;
  }
}
CASE(switch_uniform, over(n), out<u32>(n), 3, n)

// A small interpreter: a loop around a switch, with a stack.
KERNEL stack_machine(i32* result, const u8* program, int length, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  i32 stack[16];
  u32 depth = 0;
  for (i32& slot : stack) slot = 0;
  for (int pc = 0; pc < length; ++pc) {
    const u8 code = program[(pc + i) % length];
    const u32 top = (depth + 15) & 15, below = (depth + 14) & 15;
    switch (code & 7) {
      case 0:
        stack[depth++ & 15] = code;
        break;
      case 1:
        stack[below] = static_cast<i32>(static_cast<u32>(stack[below]) + static_cast<u32>(stack[top]));
        --depth;
        break;
      case 2:
        stack[below] = static_cast<i32>(static_cast<u32>(stack[below]) * static_cast<u32>(stack[top]));
        --depth;
        break;
      case 3:
        stack[top] = ~stack[top];
        break;
      case 4:
        stack[depth & 15] = stack[top];
        ++depth;
        break;
      case 5:
        if (stack[top] > 0) pc += 2;
        break;
      case 6:
        stack[depth & 15] = i;
        ++depth;
        break;
      default:
        stack[top] ^= stack[below];
    }
    depth &= 15;
  }
  i32 sum = 0;
  for (const i32 slot : stack) sum ^= slot;
  result[i] = sum;
}
CASE(stack_machine, over(n), out<i32>(n), any<u8>(60), 60, n)

// ---- Calls ----

NOT_INLINE u32 twice(u32 a) { return a * 2 + 1; }
NOT_INLINE u64 mix(u64 a, u32 b, u16 c, u8 d) { return (a ^ b) * 3 + c - d; }
NOT_INLINE f64 polynomial(f64 x, f32 a, f16 b) { return x * x * a + x * static_cast<f64>(b) + 1; }
struct Both {
  u32 sum;
  f32 ratio;
  u64 product;
};
NOT_INLINE Both both(u32 a, u32 b) {
  return {a + b, static_cast<f32>(a) / static_cast<f32>(b + 1.0f), u64(a) * b};
}
NOT_INLINE void change(u32* value, u32 (&array)[4]) {
  *value += array[*value & 3];
  array[0]++;
}
KERNEL calls(u64* result, f64* numbers, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 value = twice(values[i]);
  if ((value & 4) != 0) value = twice(twice(value));
  u32 array[4] = {1, 10, 100, 1000};
  change(&value, array);
  change(&value, array);
  const Both pair = both(value, static_cast<u32>(i));
  result[i] = mix(pair.product, pair.sum, static_cast<u16>(value), static_cast<u8>(i)) + array[0];
  numbers[i] = polynomial(i * 0.5, pair.ratio, static_cast<f16>(i & 31));
}
CASE(calls, over(n), out<u64>(n), out<f64>(n), any<u32>(n), n)

// More arguments than registers hold.
NOT_INLINE u32 many(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h, u64 i, u64 j, u64 k, u64 l, u64 m,
                    u64 o, u64 p, u64 q, u64 r, u64 s, f64 t, f64 u, f64 v) {
  return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 +
         static_cast<u32>(i + j * 3 + k * 5 + l * 7 + m * 11 + o * 13 + p * 17 + q * 19 + r * 23 + s * 29) +
         static_cast<u32>(t + u * 2 + v * 4);
}
KERNEL call_with_many(u32* result, const u32* a, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 x = a[i];
  result[i] = many(x, x + 1, x ^ 2, 3, x, x >> 5, 6, x * 7, x, 9, x + 10, 11, x, 13, 14, x, 16, 17, i, i * 2,
                   i + 0.5);
}
CASE(call_with_many, over(n), out<u32>(n), any<u32>(n), n)

NOT_INLINE u32 fibonacci(u32 k) { return k < 2 ? k : fibonacci(k - 1) + fibonacci(k - 2); }
KERNEL recursion(u32* result, int count) {
  const int i = static_cast<int>(global_x());
  if (i < count) result[i] = fibonacci(static_cast<u32>(i) % 11);
}
CASE(recursion, over(100, 64), out<u32>(100), 100)

NOT_INLINE u32 ackermann(u32 m, u32 k) {
  if (m == 0) return k + 1;
  if (k == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, k - 1));
}
KERNEL deep_recursion(u32* result) { result[global_x()] = ackermann(2, global_x() % 7); }
CASE(deep_recursion, shape({1, 1, 1}, {40, 1, 1}), out<u32>(40))

u32 odd(u32 k);
NOT_INLINE u32 even(u32 k) { return k == 0 ? 1 : odd(k - 1); }
NOT_INLINE u32 odd(u32 k) { return k == 0 ? 0 : even(k - 1); }
KERNEL mutual_recursion(u32* result) { result[global_x()] = even(global_x() % 19); }
CASE(mutual_recursion, shape({1, 1, 1}, {70, 1, 1}), out<u32>(70))

// Sorting by recursion, on an array of one's own.
NOT_INLINE void quicksort(u32* values, int low, int high) {
  while (low < high) {
    const u32 pivot = values[(low + high) / 2];
    int i = low, j = high;
    while (i <= j) {
      while (values[i] < pivot) ++i;
      while (values[j] > pivot) --j;
      if (i <= j) {
        const u32 value = values[i];
        values[i++] = values[j];
        values[j--] = value;
      }
    }
    if (j - low < high - i) {
      quicksort(values, low, j);
      low = i;
    } else {
      quicksort(values, i, high);
      high = j;
    }
  }
}
KERNEL sort_own(u32* result, const u32* values, int count) {
  u32 own[24];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  for (int k = 0; k < 24; ++k) own[k] = values[i * 24 + k];
  quicksort(own, 0, 23);
  for (int k = 0; k < 24; ++k) result[i * 24 + k] = own[k];
}
CASE(sort_own, over(70, 64), out<u32>(70 * 24), any<u32>(70 * 24), 70)

// ---- Pointers to functions, virtual functions ----

NOT_INLINE u32 operation_add(u32 a, u32 b) { return a + b; }
NOT_INLINE u32 operation_multiply(u32 a, u32 b) { return a * b; }
NOT_INLINE u32 operation_xor(u32 a, u32 b) { return a ^ b; }
using Operation = u32 (*)(u32, u32);
KERNEL function_pointers(u32* result, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Operation table[3] = {operation_add, operation_multiply, operation_xor};
  u32 value = values[i];
  for (int k = 0; k < 5; ++k) value = table[(value >> 3) % 3](value, static_cast<u32>(k) + 3);
  result[i] = value;
}
CASE(function_pointers, over(n), out<u32>(n), any<u32>(n), n)

struct Figure {
  f32 size;
  DEVICE explicit Figure(f32 s) : size(s) {}
  DEVICE virtual f32 area() const { return -1; }
};
struct Square : Figure {
  using Figure::Figure;
  DEVICE f32 area() const override { return size * size; }
};
struct Bar : Figure {
  f32 height;
  DEVICE Bar(f32 s, f32 h) : Figure(s), height(h) {}
  DEVICE f32 area() const override { return size * height; }
};
NOT_INLINE f32 area_of(const Figure& figure) { return figure.area(); }
KERNEL virtual_functions(f32* result, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Square square(static_cast<f32>(i));
  const Bar bar(static_cast<f32>(i), 3);
  result[i] = area_of(i % 3 == 0 ? static_cast<const Figure&>(square) : bar);
}
CASE(virtual_functions, over(n), out<f32>(n), n)

template <class F>
NOT_INLINE u32 apply(F f, u32 value) {
  return f(value) + f(value + 1);
}
KERNEL lambdas(u32* result, const u32* values, u32 factor, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 calls = 0;
  const u32 value = apply(
      [&](u32 x) {
        ++calls;
        return x * factor;
      },
      values[i]);
  result[i] = value + calls;
}
CASE(lambdas, over(n), out<u32>(n), any<u32>(n), 7, n)

// ---- The stack ----

KERNEL local_array(u32* result, const u32* values, int count) {
  u32 histogram[64];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  for (u32& slot : histogram) slot = 0;
  for (int k = 0; k < 100; ++k) histogram[values[(i + k) % count] & 63]++;
  u32 best = 0;
  for (u32 k = 0; k < 64; ++k)
    if (histogram[k] > histogram[best]) best = k;
  result[i] = best * 1000 + histogram[best];
}
CASE(local_array, over(n), out<u32>(n), any<u32>(n), n)

// Several kilobytes per lane.
KERNEL big_local_array(u64* result, const u64* values, int count) {
  u64 memory[700];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  for (u32 k = 0; k < 700; ++k) memory[k] = k * values[i];
  u64 sum = 0;
  for (u32 k = 0, at = static_cast<u32>(i); k < 40; ++k, at = (at * 13 + 7) % 700) sum += memory[at] ^ k;
  result[i] = sum;
}
CASE(big_local_array, over(80, 64), out<u64>(80), any<u64>(80), 80)

KERNEL local_bytes(u32* result, const u8* text, int count) {
  u8 bytes[37];
  i16 halves[9];
  f64 doubles[5];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  for (int k = 0; k < 37; ++k) bytes[(k * 11 + i) % 37] = text[(i + k) % count];
  for (int k = 0; k < 9; ++k) halves[(k + i) % 9] = static_cast<i16>(bytes[k * 4] * -3);
  for (int k = 0; k < 5; ++k) doubles[(k + i) % 5] = halves[k] * 0.5;
  result[i] = static_cast<u32>(static_cast<i32>(doubles[i % 5] * 2)) + bytes[i % 37] +
              static_cast<u32>(halves[i % 9]);
}
CASE(local_bytes, over(n), out<u32>(n), any<u8>(n), n)

// Memory on the stack that only some lanes ask for; clang 19 wants to know how much.
NOT_INLINE u32 sum_backwards(const u32* values, u32 first, u32 size, u32 count) {
  if (first % 3 == 0) return size;
  u32* memory = static_cast<u32*>(__builtin_alloca(13 * 4));
  for (u32 k = 0; k < size; ++k) memory[k] = values[(first + k) % count];
  u32 sum = 0;
  for (u32 k = 0; k < size; ++k) sum = sum * 31 + memory[size - 1 - k];
  return sum;
}
KERNEL dynamic_stack(u32* result, const u32* values, u32 size, int count) {
  const int i = static_cast<int>(global_x());
  if (i < count) result[i] = sum_backwards(values, static_cast<u32>(i), size, static_cast<u32>(count));
}
CASE(dynamic_stack, over(n), out<u32>(n), any<u32>(n), 13, n)

NOT_INLINE void fill_through_pointer(u32* memory, u32 size, u32 seed) {
  for (u32 k = 0; k < size; ++k) memory[k] = seed = seed * 69069 + 1;
}
KERNEL stack_through_calls(u32* result, int count) {
  u32 a[10], b[6];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  fill_through_pointer(a, 10, static_cast<u32>(i));
  fill_through_pointer(b, 6, a[9]);
  result[i] = a[b[5] % 10] ^ b[a[3] % 6];
}
CASE(stack_through_calls, over(n), out<u32>(n), n)

// So many values alive at once that registers do not suffice.
KERNEL LAUNCH_BOUNDS(1024) register_pressure(f32* result, const f32* values, int count) {
  const int i = static_cast<int>(global_x());
  f32 held[96];
#pragma clang loop unroll(full)
  for (int k = 0; k < 96; ++k) held[k] = values[i + k * 3];
  f32 sum = 0;
#pragma clang loop unroll(full)
  for (int k = 0; k < 96; ++k) {
    held[k] = held[k] * held[(k * 37 + 11) % 96] + 1;
    sum += held[k];
  }
#pragma clang loop unroll(full)
  for (int k = 0; k < 96; ++k) sum = sum * 0.5f + held[95 - k] * held[(k * 53) % 96];
  if (i < count) result[i] = sum;
}
CASE(register_pressure, over(100, 64), out<f32>(100), between<f32>(128 + 288, -1, 1), 100)

// Barriers in loops whose length is the same for all, with work that is not.
KERNEL barriers_in_loop(u32* result, const u32* values, u32 rounds) {
  SHARED u32 shared[128];
  const u32 i = thread_x();
  shared[i] = values[global_x()];
  for (u32 round = 1; round <= rounds; ++round) {
    barrier();
    u32 value = shared[(i + round) & 127];
    if ((value & 1) != 0)
      for (u32 k = 0; k < (i & 3); ++k) value = value * 5 + k;
    barrier();
    shared[i] = value;
  }
  barrier();
  result[global_x()] = shared[127 - i];
}
CASE(barriers_in_loop, shape({2, 1, 1}, {128, 1, 1}).together(), out<u32>(256), any<u32>(256), 5)

// Most of the threads are gone before the barrier... all of a wave, or none.
KERNEL waves_leave(u32* result, const u32* values) {
  SHARED u32 shared[64];
  const u32 i = thread_x();
  if (i >= 64) return;
  shared[i] = values[i];
  barrier();
  result[i] = shared[63 - i];
}
CASE(waves_leave, shape({1, 1, 1}, {192, 1, 1}).together(), out<u32>(64), any<u32>(64))
