// A single wave to run single instructions on: set registers, execute a line of assembler, look at the
// registers.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <string_view>

#include "exec/decode.h"
#include "exec/wave.h"
#include "tested.h"

namespace hipemu {

class WaveFixture {
 public:
  explicit WaveFixture(std::string_view processor, int wave_size = 0)
      : chip(*find_chip(processor)), size(wave_size != 0 ? wave_size : chip.wave_size) {
    wave.lanes = size;
    wave.vectors.resize(512u * size);
    wave.vector_rows = 256;
    wave.mode = 0xf0;  // denormals kept, round to nearest
    wave.initial_exec = size == 64 ? ~0ull : 0xffffffffull;
    set_exec(wave.initial_exec);
  }

  void set_exec(uint64_t mask) { wave.set_mask(scalar::exec, mask); }

  template <class T>
  void set_vector(int row, std::function<T(int lane)> value) {
    for (int lane = 0; lane < size; ++lane) {
      if constexpr (sizeof(T) == 8) {
        const auto bits = std::bit_cast<uint64_t>(value(lane));
        wave.row(row)[lane] = static_cast<uint32_t>(bits);
        wave.row(row + 1)[lane] = static_cast<uint32_t>(bits >> 32);
      } else if constexpr (sizeof(T) == 2) {
        wave.row(row)[lane] = std::bit_cast<uint16_t>(value(lane));
      } else {
        wave.row(row)[lane] = std::bit_cast<uint32_t>(value(lane));
      }
    }
  }
  template <class T>
  void set_all(int row, T value) {
    set_vector<T>(row, [&](int) { return value; });
  }

  uint32_t bits(int row, int lane) { return wave.row(row)[lane]; }
  uint64_t bits64(int row, int lane) {
    return static_cast<uint64_t>(wave.row(row + 1)[lane]) << 32 | wave.row(row)[lane];
  }
  float f32(int row, int lane = 0) { return std::bit_cast<float>(bits(row, lane)); }
  double f64(int row, int lane = 0) { return std::bit_cast<double>(bits64(row, lane)); }

  // As the disassembler prints it.
  void execute(std::string_view text) {
    const Instruction instruction = parse_instruction(text);
    const auto operation = decode(instruction, chip, size);
    wave.operation = operation.get();
    operation->run(wave, *operation);
    wave.operation = nullptr;
    record_tested(instruction);
  }

  const Chip& chip;
  int size;
  Wave wave;
};

}  // namespace hipemu
