// A kernel, three copies and a pattern for every pair.
#include "gpu/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "gpu/backends.h"
#include "gpu/compiler.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Memory of a device, for as long as the object lives.
class Memory {
 public:
  Memory(const Driver& driver, int device, std::size_t bytes) : driver_(driver), device_(device) {
    driver.check(driver.call.use_device(device), "choosing the device");
    driver.check(driver.call.allocate(&data_, bytes), "allocating memory");
  }
  ~Memory() {
    driver_.call.use_device(device_);
    driver_.call.release(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  const Driver& driver_;
  int device_;
  void* data_ = nullptr;
};

// Page-locked memory of the host.
class PinnedMemory {
 public:
  PinnedMemory(const Driver& driver, std::size_t bytes) : driver_(driver) {
    driver.check(driver.call.allocate_host(&data_, bytes, 0), "allocating pinned host memory");
  }
  ~PinnedMemory() { driver_.call.release_host(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }

 private:
  const Driver& driver_;
  void* data_ = nullptr;
};

std::vector<std::uint32_t> pattern(std::size_t count) {
  std::vector<std::uint32_t> values(count);
  std::uint32_t state = 1;
  for (auto& value : values) value = state = state * 1664525u + 1013904223u;
  return values;
}

void compile_and_launch(const Driver& driver, int device, const std::string& architecture, Trial& trial) {
  const auto begin = std::chrono::steady_clock::now();
  const KernelSource source{"trial",
                            "#include \"gpu.h\"\n"
                            "KERNEL void trial(const u32* in, u32* out, u32 add, u32 count) {\n"
                            "  const u32 i = (u32)global_thread();\n"
                            "  if (i < count) out[i] = in[i] * 3u + add;\n}\n",
                            {}};
  const std::vector<char> code =
      compile_uncached(driver, architecture, driver.attribute(Attribute::wave_size, device), source);
  trial.compile_ms = Milliseconds(std::chrono::steady_clock::now() - begin).count();

  constexpr std::uint32_t count = 10'007;  // the last block is not full
  const auto values = pattern(count);
  std::vector<std::uint32_t> results(count);
  const Memory in(driver, device, count * 4), out(driver, device, count * 4);
  ModuleHandle module = nullptr;
  FunctionHandle function = nullptr;
  driver.check(driver.call.module_load(&module, code.data()), "loading a kernel");
  driver.check(driver.call.module_function(&function, module, "trial"), "finding a kernel");
  driver.check(driver.call.copy_to_device(in.data(), values.data(), count * 4, nullptr),
               "copying to the device");
  void* in_data = in.data();
  void* out_data = out.data();
  std::uint32_t add = 7, size = count;
  void* arguments[] = {&in_data, &out_data, &add, &size};
  constexpr unsigned threads = 256;
  driver.check(driver.call.launch(function, (count + threads - 1) / threads, 1, 1, threads, 1, 1, 0, nullptr,
                                  arguments, nullptr),
               "launching a kernel");
  driver.check(driver.call.copy_to_host(results.data(), out.data(), count * 4, nullptr),
               "copying to the host");
  driver.check(driver.call.synchronize_device(), "waiting for the device");
  driver.call.module_unload(module);
  for (std::size_t i = 0; i < count; ++i)
    if (results[i] != values[i] * 3u + add)
      throw DeviceError(fmt::format("a kernel computed {} instead of {} for element {}", results[i],
                                    values[i] * 3u + add, i));
}

// Bytes per second of `copy`, the best of five after one to warm up.
template <class Copy>
double speed(const Driver& driver, std::size_t bytes, const Copy& copy) {
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    driver.check(copy(), "copying");
    driver.check(driver.call.synchronize_device(), "waiting for the device");
    const double seconds = Milliseconds(std::chrono::steady_clock::now() - begin).count() / 1000;
    if (i > 0) best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

void measure_copies(const Driver& driver, int device, Trial& trial) {
  driver.check(driver.call.use_device(device), "choosing the device");
  std::size_t free = 0, total = 0;
  driver.check(driver.call.memory_info(&free, &total), "asking for free memory");
  const std::size_t bytes = std::min<std::size_t>(std::size_t{64} << 20, free / 8);
  const PinnedMemory host(driver, bytes);
  const Memory a(driver, device, bytes), b(driver, device, bytes);
  std::fill_n(static_cast<char*>(host.data()), bytes, '\x5a');
  const auto& call = driver.call;
  trial.to_device =
      speed(driver, bytes, [&] { return call.copy_to_device(a.data(), host.data(), bytes, nullptr); });
  trial.to_host =
      speed(driver, bytes, [&] { return call.copy_to_host(host.data(), a.data(), bytes, nullptr); });
  trial.on_device =  // each byte is read and written
      speed(driver, 2 * bytes, [&] { return call.copy_on_device(b.data(), a.data(), bytes, nullptr); });
}

PeerTrial try_pair(const Driver& driver, Device from, Device to) {
  PeerTrial trial{from, to, false, {}};
  try {
    int can = 0;
    driver.check(driver.call.can_access_peer(&can, from.index, to.index), "asking about peers");
    trial.direct = can != 0;
    if (!trial.direct) return trial;
    constexpr std::size_t count = 1 << 18;
    const Memory source(driver, from.index, count * 4), target(driver, to.index, count * 4);
    const auto sent = pattern(count);
    std::vector<std::uint32_t> received(count);
    driver.check(driver.call.use_device(from.index), "choosing the device");
    if (const int code = driver.call.enable_peer(to.index); code != driver.codes.peer_already_enabled)
      driver.check(code, "allowing access between devices");
    driver.check(driver.call.copy_to_device(source.data(), sent.data(), count * 4, nullptr),
                 "copying to the device");
    driver.check(driver.call.copy_on_device(target.data(), source.data(), count * 4, nullptr),
                 "copying between devices");
    driver.check(driver.call.synchronize_device(), "waiting for the device");
    driver.check(driver.call.use_device(to.index), "choosing the device");
    driver.check(driver.call.copy_to_host(received.data(), target.data(), count * 4, nullptr),
                 "copying to the host");
    driver.check(driver.call.synchronize_device(), "waiting for the device");
    const auto wrong = std::mismatch(sent.begin(), sent.end(), received.begin()).first - sent.begin();
    if (wrong != static_cast<std::ptrdiff_t>(count))
      trial.problem = fmt::format("what arrives differs from byte {} on", wrong * 4);
  } catch (const Error& error) {
    trial.problem = error.what();
  }
  return trial;
}

}  // namespace

Trial try_device(Device device) {
  const Driver& driver = driver_of(device.kind);
  Trial trial;
  try {
    driver.check(driver.call.use_device(device.index), "choosing the device");
    compile_and_launch(driver, device.index, describe(device).architecture, trial);
    measure_copies(driver, device.index, trial);
  } catch (const Error& error) {
    trial.problem = error.what();
  }
  return trial;
}

std::vector<PeerTrial> try_peers(DeviceKind kind) {
  std::vector<PeerTrial> trials;
  const int count = device_count(kind);
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to)
      if (from != to)
        trials.push_back(try_pair(driver_of(kind), {kind, static_cast<std::uint8_t>(from)},
                                  {kind, static_cast<std::uint8_t>(to)}));
  return trials;
}

}  // namespace hearth::gpu
