// hipemu-bench: wave-instructions per second for kernels of two chips, with and without checks, on one and
// two threads.
//
//   hipemu-bench [--json FILE]
//
// Options of the emulator are read once per process, so each configuration runs in a child of its own.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "code_object/code_object.h"
#include "exec/launch.h"
#include "exec/value.h"
#include "memory/address_space.h"

namespace {

using namespace hipemu;

std::shared_ptr<const LoadedCode> load(const std::string& chip) {
  std::ifstream file(std::string(HIPEMU_BENCH_KERNELS) + "/kernels." + chip + ".co", std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  CodeObject object = parse_code_object(bytes);
  return std::make_shared<LoadedCode>(std::move(object), std::move(bytes));
}

struct Buffer {
  explicit Buffer(std::size_t bytes)
      : data(address_space().allocate(bytes, MemoryKind::device, 0, "bench")->base), size(bytes) {}
  template <class T>
  void fill(T (*value)(std::size_t)) {
    auto* elements = reinterpret_cast<T*>(data);
    for (std::size_t i = 0; i < size / sizeof(T); ++i) elements[i] = value(i);
    address_space().mark_written(data, size);
  }
  std::byte* data;
  std::size_t size;
};

template <class T>
void append(std::vector<std::byte>& arguments, T value) {
  arguments.resize((arguments.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  arguments.insert(arguments.end(), bytes, bytes + sizeof(T));
}

struct Measurement {
  double seconds = 0;  // median of a launch
  uint64_t instructions = 0;
};

Measurement measure(const Launch& launch, int repetitions) {
  std::vector<double> times;
  Measurement result;
  for (int i = -1; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    uint64_t instructions = 0;
    if (const auto fault = run(launch, &instructions)) {
      fmt::print(stderr, "{}\n", fault->report);
      std::exit(1);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(elapsed.count());  // the first launch decodes
    result.instructions = instructions;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  result.seconds = times[times.size() / 2];
  return result;
}

Launch prepare(const std::string& chip, const std::string& kernel) {
  Launch launch;
  launch.code = load(chip);
  launch.chip = find_chip(chip);
  launch.kernel = launch.code->find_kernel(kernel);
  if (launch.kernel == nullptr) {
    fmt::print(stderr, "hipemu-bench: no kernel {} for {}\n", kernel, chip);
    std::exit(1);
  }
  return launch;
}

Measurement run_matmul(const std::string& chip) {
  constexpr int n = 192;
  Buffer a(n * n * 4), b(n * n * 4), c(n * n * 4);
  a.fill<float>([](std::size_t i) { return static_cast<float>(i % 7); });
  b.fill<float>([](std::size_t i) { return static_cast<float>(i % 5); });
  Launch launch = prepare(chip, "matmul");
  launch.grid = {n / 16, n / 16, 1};
  launch.block = {16, 16, 1};
  append(launch.arguments, a.data);
  append(launch.arguments, b.data);
  append(launch.arguments, c.data);
  append(launch.arguments, n);
  return measure(launch, 5);
}

Measurement run_softmax(const std::string& chip) {
  constexpr int rows = 256, columns = 4096;
  Buffer x(rows * columns * 4), y(rows * columns * 4);
  x.fill<float>([](std::size_t i) { return static_cast<float>(i % 1000) * 0.01f; });
  Launch launch = prepare(chip, "softmax");
  launch.grid = {rows, 1, 1};
  launch.block = {256, 1, 1};
  append(launch.arguments, x.data);
  append(launch.arguments, y.data);
  append(launch.arguments, columns);
  return measure(launch, 5);
}

Measurement run_wmma(const std::string& chip) {
  constexpr int n = 256;
  Buffer a(n * n * 2), b(n * n * 2), c(n * n * 4);
  a.fill<uint16_t>([](std::size_t i) { return float_to_half(static_cast<float>(i % 3)); });
  b.fill<uint16_t>([](std::size_t i) { return float_to_half(static_cast<float>(i % 4)); });
  Launch launch = prepare(chip, "gemm_wmma");
  launch.grid = {n / 16, n / 16, 1};
  launch.block = {32, 1, 1};
  append(launch.arguments, a.data);
  append(launch.arguments, b.data);
  append(launch.arguments, c.data);
  append(launch.arguments, n);
  return measure(launch, 5);
}

Measurement in_child(const std::string& chip, const std::string& kernel, bool checks, int threads) {
  int pipes[2];
  if (pipe(pipes) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // when the benchmark is stopped
    setenv("HIPEMU_CHECK", checks ? "on" : "off", 1);
    setenv("HIPEMU_THREADS", std::to_string(threads).c_str(), 1);
    const Measurement result = kernel == "matmul"    ? run_matmul(chip)
                               : kernel == "softmax" ? run_softmax(chip)
                                                     : run_wmma(chip);
    const bool written = write(pipes[1], &result, sizeof result) == sizeof result;
    _exit(written ? 0 : 1);
  }
  close(pipes[1]);
  Measurement result;
  const bool complete = read(pipes[0], &result, sizeof result) == sizeof result;
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || status != 0) {
    fmt::print(stderr, "hipemu-bench: {} on {} failed\n", kernel, chip);
    std::exit(1);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json_path;
  if (argc == 3 && std::string(argv[1]) == "--json") {
    json_path = argv[2];
  } else if (argc != 1) {
    fmt::print("usage: hipemu-bench [--json FILE]\n");
    return argc == 2 && std::string(argv[1]) == "--help" ? 0 : 2;
  }
  struct Row {
    const char *chip, *kernel;
  };
  nlohmann::json out = nlohmann::json::array();
  fmt::print(
      "| kernel | chip | M instructions/s, no checks | two threads | checks on, slower by | time |\n"
      "|---|---|---|---|---|---|\n");
  for (const Row row : {Row{"gfx1100", "matmul"}, Row{"gfx1100", "softmax"}, Row{"gfx1100", "gemm_wmma"},
                        Row{"gfx942", "matmul"}, Row{"gfx942", "softmax"}}) {
    const Measurement plain = in_child(row.chip, row.kernel, false, 1);
    const Measurement two = in_child(row.chip, row.kernel, false, 2);
    const Measurement checked = in_child(row.chip, row.kernel, true, 1);
    const double rate = static_cast<double>(plain.instructions) / plain.seconds / 1e6;
    fmt::print("| {} | {} | {:.1f} | {:.2f}x | {:.2f}x | {:.4f} s |\n", row.kernel, row.chip, rate,
               plain.seconds / two.seconds, checked.seconds / plain.seconds, plain.seconds);
    out.push_back({{"kernel", row.kernel},
                   {"chip", row.chip},
                   {"wave_instructions", plain.instructions},
                   {"million_per_second", rate},
                   {"seconds", plain.seconds},
                   {"two_threads_speedup", plain.seconds / two.seconds},
                   {"checks_slowdown", checked.seconds / plain.seconds}});
  }
  if (!json_path.empty()) std::ofstream(json_path) << out.dump(2) << "\n";
}
