// The calling convention of kernels: user registers, workgroup and thread numbers, scratch.
#include "exec/initial_state.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "exec/apertures.h"

namespace hipemu {
namespace {

constexpr uint32_t poison = 0x7fbadbad;  // a NaN that catches the eye

void set_pair(Wave& wave, uint32_t& next, uint64_t value) {
  wave.scalars[next] = static_cast<uint32_t>(value);
  wave.scalars[next + 1] = static_cast<uint32_t>(value >> 32);
  next += 2;
}

void set_user_registers(Wave& wave, const Dispatch& dispatch) {
  const KernelDescriptor& descriptor = dispatch.launch->kernel->descriptor;
  uint32_t next = 0;
  const auto has = [&](int bit) { return (descriptor.properties >> bit & 1) != 0; };
  if (has(0))
    for (const uint32_t word : scratch_descriptor(wave)) wave.scalars[next++] = word;
  if (has(1)) set_pair(wave, next, reinterpret_cast<uint64_t>(dispatch.packet));
  if (has(2)) set_pair(wave, next, reinterpret_cast<uint64_t>(dispatch.packet + 64));
  if (has(3)) set_pair(wave, next, reinterpret_cast<uint64_t>(dispatch.kernarg));
  if (has(4)) set_pair(wave, next, dispatch.serial);
  if (has(5)) set_pair(wave, next, reinterpret_cast<uint64_t>(wave.scratch));
  if (has(6)) wave.scalars[next++] = dispatch.scratch_size;
  // Arguments that the hardware loads ahead: length in the low seven bits, first dword above.
  const uint32_t length = descriptor.kernarg_preload & 0x7f, first = descriptor.kernarg_preload >> 7;
  for (uint32_t i = 0; i < length && next < 16; ++i)
    std::memcpy(&wave.scalars[next++], dispatch.kernarg + 4 * (first + i), 4);
}

void set_workgroup_numbers(Wave& wave, const Dispatch& dispatch, const Workgroup& group) {
  const KernelDescriptor& descriptor = dispatch.launch->kernel->descriptor;
  if (dispatch.launch->chip->generation == Generation::gfx12) {
    wave.scalars[scalar::ttmp + 9] = group.id[0];
    wave.scalars[scalar::ttmp + 7] = group.id[1] | group.id[2] << 16;
    return;
  }
  uint32_t next = descriptor.user_sgpr_count();
  for (int axis = 0; axis < 3; ++axis)
    if (descriptor.workgroup_id_enabled(axis)) wave.scalars[next++] = group.id[axis];
  if ((descriptor.rsrc2 >> 10 & 1) != 0) wave.scalars[next++] = 0;  // workgroup info
  // Each wave has its own scratch here, so the offset of the wave in the scratch of the queue is 0.
  if (descriptor.private_segment_enabled() && !dispatch.launch->chip->architected_flat_scratch)
    wave.scalars[next++] = 0;
}

void set_thread_numbers(Wave& wave, const Dispatch& dispatch) {
  const Chip& chip = *dispatch.launch->chip;
  const bool packed = chip.generation != Generation::gfx10;
  for (int lane = 0; lane < wave.lanes; ++lane) {
    const auto thread = thread_of(wave, lane);
    if (packed) {
      wave.row(0)[lane] = thread[0] | thread[1] << 10 | thread[2] << 20;
    } else {
      const int dimensions = dispatch.launch->kernel->descriptor.work_item_id_dimensions();
      for (int axis = 0; axis < dimensions; ++axis)
        wave.row(static_cast<uint32_t>(axis))[lane] = thread[axis];
    }
  }
}

void begin_wave(Wave& wave, Workgroup& group, Dispatch& dispatch, int number, uint32_t threads) {
  const Launch& launch = *dispatch.launch;
  const int lanes = dispatch.wave_size;
  // Only what the instructions of the chip can name; a wide operand may begin at the last register.
  const std::size_t rows = (launch.chip->unified_vgprs ? 512 : 256) + 32;
  wave.lanes = lanes;
  wave.vectors.resize(rows * static_cast<std::size_t>(lanes));
  if (dispatch.checks.any())
    std::fill_n(wave.vectors.begin(), static_cast<std::size_t>(dispatch.vector_rows) * lanes, poison);
  wave.pc = launch.kernel->entry;
  wave.state = Wave::State::running;
  wave.scc = false;
  wave.index_mode = 0;
  wave.mode = launch.kernel->descriptor.rsrc1 >> 12 & 0xff;
  wave.number = number;
  wave.instructions = 0;
  wave.missed_barrier = 0;
  wave.group = &group;
  wave.dispatch = &dispatch;
  wave.vector_rows = dispatch.vector_rows;
  wave.scratch_size = dispatch.scratch_size;
  wave.scratch =
      group.scratch_storage.data() + static_cast<std::size_t>(number) * lanes * dispatch.scratch_size;
  wave.undefined.assign(dispatch.checks.init ? rows : 0, 0);
  wave.undefined_rows = 0;
  wave.scalars.fill(0);

  const uint32_t first = static_cast<uint32_t>(number * lanes);
  const uint32_t present = std::min<uint32_t>(static_cast<uint32_t>(lanes), threads - first);
  wave.initial_exec = present == 64 ? ~0ull : (1ull << present) - 1;
  wave.set_mask(scalar::exec, wave.initial_exec);
  set_apertures(wave);
  set_user_registers(wave, dispatch);
  set_workgroup_numbers(wave, dispatch, group);
  set_thread_numbers(wave, dispatch);
}

}  // namespace

std::array<uint32_t, 3> thread_of(const Wave& wave, int lane) {
  const auto& block = wave.dispatch->launch->block;
  const uint32_t flat = static_cast<uint32_t>(wave.number * wave.lanes + lane);
  return {flat % block[0], flat / block[0] % block[1], flat / (block[0] * block[1])};
}

void begin_workgroup(Workgroup& group, Dispatch& dispatch, uint64_t linear_id) {
  const Launch& launch = *dispatch.launch;
  const auto& grid = launch.grid;
  group.dispatch = &dispatch;
  group.linear_id = linear_id;
  group.id = {static_cast<uint32_t>(linear_id % grid[0]),
              static_cast<uint32_t>(linear_id / grid[0] % grid[1]),
              static_cast<uint32_t>(linear_id / (static_cast<uint64_t>(grid[0]) * grid[1]))};
  group.barrier_epoch = 0;
  group.lds_size = dispatch.lds_size;
  if (group.lds_storage.size() < dispatch.lds_size) group.lds_storage.resize(dispatch.lds_size);
  group.lds = group.lds_storage.data();
  if (dispatch.checks.any()) std::fill_n(group.lds, dispatch.lds_size, std::byte{0xba});
  group.lds_shadow.begin(dispatch.lds_size, dispatch.checks, dispatch.serial);

  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const uint32_t lanes = static_cast<uint32_t>(dispatch.wave_size);
  const std::size_t waves = (threads + lanes - 1) / lanes;
  const std::size_t scratch = waves * lanes * dispatch.scratch_size;
  if (group.scratch_storage.size() < scratch) group.scratch_storage.resize(scratch);
  group.waves.resize(waves);
  for (std::size_t i = 0; i < waves; ++i)
    begin_wave(group.waves[i], group, dispatch, static_cast<int>(i), threads);
}

}  // namespace hipemu
