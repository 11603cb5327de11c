// The corpus as data: for each kernel its launch, its arguments and what it must leave in memory.
//
// Kept in plain C++, so that the test program and the kernels may be built by different compilers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace corpus {

enum class Dtype : uint8_t { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64 };

// Chips that a kernel is for, as bits.
enum ChipSet : unsigned { gfx1030 = 1, gfx1100 = 2, gfx1201 = 4, gfx90a = 8, gfx942 = 16, every_chip = 31 };

// How a buffer begins.
enum class Fill : uint8_t {
  pattern,  // nothing has been written here yet
  zeros,
  any,       // numbers of every magnitude, one in three of them an edge
  between,   // `low` to `high`, which are the first two
  whole,     // whole numbers from `low` to `high`
  counting,  // `low`, `low` + `high`, ...
  custom
};

// Plain data: there are thousands of these, and what they cost to compile adds up.
struct Argument {
  bool buffer = false;
  Dtype dtype = Dtype::u8;
  Fill fill = Fill::pattern;
  std::size_t count = 0;         // elements
  std::size_t misalignment = 0;  // bytes that the buffer begins after an aligned address
  double low = 0, high = 0;
  void (*custom)(std::byte* to, std::size_t count, uint64_t seed) = nullptr;
  // A float passes when it is the same number, as near as `ulp` units in the last place or `absolute`. NaN
  // equals NaN. With neither allowed, the sign of zero counts too.
  double ulp = 0;
  double absolute = -1;
  // When not a buffer:
  std::size_t size = 0, alignment = 8;
  std::byte value[96] = {};

  std::size_t bytes() const;
  void write(std::byte* to, uint64_t seed) const;
  Argument within(double units) const;
  Argument near(double distance) const;
  Argument misaligned(std::size_t offset) const;
};

struct Shape {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t dynamic_lds = 0;
  bool synchronised = false;  // threads of a block meet at barriers or in wave operations
  unsigned chips = every_chip;

  Shape together() const;
  Shape lds(uint32_t bytes) const;
  Shape only(unsigned chips) const;
};

Shape over(std::size_t threads, uint32_t block = 96);  // enough blocks for this many threads
Shape shape(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block);

struct Case {
  Shape shape;
  std::vector<Argument> arguments;
};

struct Entry {
  const char* name;     // of the kernel
  std::string subject;  // the source file
  void (*describe)(Case& made);
  // The kernel, or what does the work of the whole grid in one call; and how to call it with arguments laid
  // out as a C struct of them.
  void (*function)();
  void (*call)(void (*function)(), const std::byte* arguments);
  bool whole_grid;

  Case make() const {
    Case made;
    describe(made);
    return made;
  }
};

std::vector<Entry>& entries();

// Runs the reference of a case for a chip with waves of this size.
void run_reference(const Entry& entry, const Case& launch, int lanes, const std::byte* arguments);

// Empty when `actual` is right, else the first elements that are not, as text.
std::string differences(const Argument& argument, const std::byte* expected, const std::byte* actual);

}  // namespace corpus
