// A workgroup with LDS and scratch, whose waves run single instructions, with checks or without.
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/apertures.h"
#include "exec/check/report.h"
#include "exec/dispatch.h"
#include "memory/address_space.h"
#include "tested.h"

namespace hipemu {

// Workgroups of one dispatch.
class MemoryFixture {
 public:
  explicit MemoryFixture(std::string_view processor, CheckOptions checks = {}, int groups = 1, int waves = 1)
      : chip(*find_chip(processor)), size(chip.wave_size) {
    static uint64_t serial = 1000;
    launch.chip = &chip;
    launch.grid = {static_cast<uint32_t>(groups), 1, 1};
    launch.block = {static_cast<uint32_t>(waves * size), 1, 1};
    dispatch.launch = &launch;
    dispatch.serial = ++serial;
    dispatch.checks = checks;
    dispatch.wave_size = size;
    for (int g = 0; g < groups; ++g) {
      auto group = std::make_unique<Workgroup>();
      group->id = {static_cast<uint32_t>(g), 0, 0};
      group->linear_id = static_cast<uint64_t>(g);
      group->dispatch = &dispatch;
      group->lds_storage.resize(lds_bytes);
      group->lds = group->lds_storage.data();
      group->lds_size = lds_bytes;
      group->lds_shadow.begin(lds_bytes, checks, dispatch.serial);
      group->scratch_storage.resize(static_cast<std::size_t>(waves) * size * scratch_bytes);
      group->waves.resize(static_cast<std::size_t>(waves));
      for (int w = 0; w < waves; ++w) {
        Wave& one = group->waves[static_cast<std::size_t>(w)];
        one.lanes = size;
        one.number = w;
        one.vectors.resize(544u * size);
        one.vector_rows = 256;
        one.undefined.assign(checks.init ? 544 : 0, 0);
        one.initial_exec = size == 64 ? ~0ull : 0xffffffffull;
        one.set_mask(scalar::exec, one.initial_exec);
        one.group = group.get();
        one.dispatch = &dispatch;
        one.scratch_size = scratch_bytes;
        one.scratch = group->scratch_storage.data() + static_cast<std::size_t>(w) * size * scratch_bytes;
        set_apertures(one);
      }
      workgroups.push_back(std::move(group));
    }
  }
  ~MemoryFixture() {
    for (void* memory : allocated) address_space().release(memory);
  }

  // Device memory that counts as written, holding `values`.
  template <class T>
  T* memory(std::vector<T> values) {
    T* pointer = fresh<T>(values.size());
    std::memcpy(pointer, values.data(), values.size() * sizeof(T));
    address_space().mark_written(pointer, values.size() * sizeof(T));
    return pointer;
  }
  // Device memory that nobody has written.
  template <class T>
  T* fresh(std::size_t count) {
    Allocation* allocation = address_space().allocate(count * sizeof(T), MemoryKind::device, 0, "hipMalloc");
    allocated.push_back(allocation->base);
    return reinterpret_cast<T*>(allocation->base);
  }

  Wave& wave(int group = 0, int number = 0) {
    return workgroups[static_cast<std::size_t>(group)]->waves[static_cast<std::size_t>(number)];
  }
  Workgroup& group(int number = 0) { return *workgroups[static_cast<std::size_t>(number)]; }
  void barrier(int number = 0) { ++group(number).barrier_epoch; }

  void run(Wave& on, std::string_view text) {
    const Instruction instruction = parse_instruction(text);
    const auto operation = decode(instruction, chip, size);
    record_tested(instruction);
    on.operation = operation.get();
    struct Reset {
      Wave& wave;
      ~Reset() { wave.operation = nullptr; }
    } reset{on};
    if (on.undefined_rows > 0) track(on, *operation);
    operation->run(on, *operation);
  }
  void run(std::string_view text) { run(wave(), text); }

  // The message of the fault that the instruction raises; empty when it raises none.
  std::string fault(Wave& on, std::string_view text) {
    try {
      run(on, text);
    } catch (const KernelFault& problem) {
      last = problem;
      return problem.message;
    }
    return "";
  }
  std::string fault(std::string_view text) { return fault(wave(), text); }

  void set_scalar64(Wave& on, uint32_t index, uint64_t value) { on.set_scalar64(index, value); }
  template <class F>
  void set_row(Wave& on, uint32_t row, F&& value) {
    for (int lane = 0; lane < size; ++lane) on.row(row)[lane] = static_cast<uint32_t>(value(lane));
  }
  template <class F>
  void set_rows64(Wave& on, uint32_t row, F&& value) {
    for (int lane = 0; lane < size; ++lane) {
      const uint64_t bits = (uint64_t)value(lane);
      on.row(row)[lane] = static_cast<uint32_t>(bits);
      on.row(row + 1)[lane] = static_cast<uint32_t>(bits >> 32);
    }
  }
  template <class F>
  void set_row(uint32_t row, F&& value) {
    set_row(wave(), row, value);
  }
  template <class F>
  void set_rows64(uint32_t row, F&& value) {
    set_rows64(wave(), row, value);
  }
  uint32_t at(uint32_t row, int lane) { return wave().row(row)[lane]; }
  uint64_t at64(uint32_t row, int lane) {
    return static_cast<uint64_t>(wave().row(row + 1)[lane]) << 32 | wave().row(row)[lane];
  }
  void set_exec(uint64_t mask) { wave().set_mask(scalar::exec, mask); }
  template <class T>
  T lds_at(uint32_t offset) {
    T value;
    std::memcpy(&value, group().lds + offset, sizeof value);
    return value;
  }
  template <class T>
  void set_lds(uint32_t offset, T value) {
    std::memcpy(group().lds + offset, &value, sizeof value);
    auto& written = group().lds_shadow.written;
    if (!written.empty()) std::fill_n(written.begin() + offset, sizeof value, uint8_t{1});
  }

  static constexpr uint32_t lds_bytes = 4096, scratch_bytes = 256;
  const Chip& chip;
  int size;
  Launch launch;
  Dispatch dispatch;
  std::vector<std::unique_ptr<Workgroup>> workgroups;
  std::vector<void*> allocated;
  KernelFault last{Fault::Kind::abort, ""};

 private:
  static void track(Wave& wave, const Operation& operation);
};

}  // namespace hipemu

#include "exec/check/undefined.h"

inline void hipemu::MemoryFixture::track(Wave& wave, const Operation& operation) {
  track_undefined(wave, operation);
}
