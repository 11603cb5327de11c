// Whole kernels, compiled by clang for every chip: planted faults are found, correct programs raise nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "code_object/code_object.h"
#include "exec/check/options.h"
#include "exec/launch.h"
#include "memory/address_space.h"

namespace hipemu {
namespace {

constexpr const char* source = R"(
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
using u32 = unsigned;

__device__ inline int thread() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline int block() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline int place() { return block() * 256 + thread(); }
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline void fence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ inline u32 add(u32* to, u32 value) {
  return __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ u32 sum(u32* partial) {
  for (int distance = 128; distance > 0; distance /= 2) {
    if (thread() < distance) partial[thread()] += partial[thread() + distance];
    barrier();
  }
  return partial[0];
}

extern "C" __global__ void missing_barrier(u32* in, u32* out, u32*) {
  __shared__ u32 tile[256];
  tile[thread()] = in[place()];
  out[place()] = tile[(thread() + 77) & 255];
}
extern "C" __global__ void with_barrier(u32* in, u32* out, u32*) {
  __shared__ u32 tile[256];
  tile[thread()] = in[place()];
  barrier();
  out[place()] = tile[(thread() + 77) & 255];
}
extern "C" __global__ void blocks_write_one_cell(u32*, u32* out, u32*) {
  if (thread() == 0) out[0] = block();
}
extern "C" __global__ void blocks_write_the_same(u32*, u32* out, u32*) { out[3] = 7; }
extern "C" __global__ void reads_another_block(u32*, u32* out, u32*) {
  out[place()] = thread();
  barrier();
  if (block() > 0) out[4096 + place()] = out[place() - 256];
}
extern "C" __global__ void last_block_reduction(u32* in, u32* out, u32* counters) {
  __shared__ u32 partial[256];
  __shared__ bool last;
  partial[thread()] = in[place()];
  barrier();
  const u32 mine = sum(partial);
  if (thread() == 0) {
    out[1 + block()] = mine;
    fence();
    last = add(counters, 1) == 15;
  }
  barrier();
  if (!last) return;
  fence();
  partial[thread()] = thread() < 16 ? out[1 + thread()] : 0;
  barrier();
  const u32 all = sum(partial);
  if (thread() == 0) out[0] = all;
}
extern "C" __global__ void look_back(u32* in, u32* out, u32* state) {
  __shared__ u32 number, before, partial[256];
  if (thread() == 0) number = add(state, 1);
  barrier();
  const u32 me = number;
  partial[thread()] = in[me * 256 + thread()];
  barrier();
  const u32 mine = sum(partial);
  if (thread() == 0) {
    u32 prefix = 0;
    if (me > 0) {
      while (__hip_atomic_load(&state[64 + me - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0)
        __builtin_amdgcn_s_sleep(1);
      prefix = state[128 + me - 1];
    }
    state[128 + me] = prefix + mine;
    __hip_atomic_store(&state[64 + me], 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    before = prefix;
  }
  barrier();
  out[me * 256 + thread()] = before;
}
extern "C" __global__ void histogram(u32* in, u32*, u32* counts) {
  __shared__ u32 mine[64];
  if (thread() < 64) mine[thread()] = 0;
  barrier();
  __hip_atomic_fetch_add(&mine[in[place()] & 63], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  barrier();
  if (thread() < 64) add(&counts[thread()], mine[thread()]);
}
extern "C" __global__ void past_the_end(u32*, u32* out, u32*) { out[place() + 8192 - 4092] = 1; }
extern "C" __global__ void unwritten_lds(u32* in, u32* out, u32*) {
  __shared__ u32 tile[512];
  tile[thread()] = in[thread()];
  barrier();
  out[place()] = tile[thread() + 2] * 3;
}
)";

// The kernels for one chip, compiled when first asked for. Null without a compiler.
std::shared_ptr<const LoadedCode> code_for(const std::string& chip) {
  static std::map<std::string, std::shared_ptr<const LoadedCode>> loaded;
  if (loaded.contains(chip)) return loaded[chip];
  std::string folder = (std::filesystem::temp_directory_path() / "hipemu-checks-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return nullptr;
  std::ofstream(folder + "/checks.hip") << source;
  const std::string command =
      "clang++-19 -x hip --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O2 --offload-arch=" +
      chip + " " + folder + "/checks.hip -o " + folder + "/checks.co 2> /dev/null";
  std::shared_ptr<const LoadedCode> code;
  if (std::system(command.c_str()) == 0) {
    std::ifstream file(folder + "/checks.co", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    std::vector<std::byte> image(bytes, bytes + text.size());
    CodeObject object = parse_code_object(image);
    code = std::make_shared<LoadedCode>(std::move(object), std::move(image));
  }
  std::filesystem::remove_all(folder);
  return loaded[chip] = code;
}

class CheckedKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!check_options().shadow()) GTEST_SKIP() << "HIPEMU_CHECK is off";
    code = code_for(GetParam());
    if (code == nullptr) GTEST_SKIP() << "no clang++-19";
    in = buffer(4096, [](std::size_t i) { return static_cast<uint32_t>(i % 97); });
    out = buffer(8192, [](std::size_t) { return 0u; });
    state = buffer(1024, [](std::size_t) { return 0u; });
  }
  void TearDown() override {
    for (uint32_t* memory : {in, out, state})
      if (memory != nullptr) address_space().release(memory);
  }
  template <class F>
  uint32_t* buffer(std::size_t count, F&& value) {
    auto* memory = reinterpret_cast<uint32_t*>(
        address_space().allocate(4 * count, MemoryKind::device, 0, "hipMalloc")->base);
    for (std::size_t i = 0; i < count; ++i) memory[i] = value(i);
    address_space().mark_written(memory, 4 * count);
    return memory;
  }
  std::optional<Fault> launch(const char* kernel) {
    Launch what;
    what.code = code;
    what.chip = find_chip(GetParam());
    what.kernel = code->find_kernel(kernel);
    what.grid = {16, 1, 1};
    what.block = {256, 1, 1};
    what.arguments.resize(24);
    uint32_t* const pointers[] = {in, out, state};
    std::memcpy(what.arguments.data(), pointers, sizeof pointers);
    return run(what);
  }
  void expect(const char* kernel, Fault::Kind kind, std::string_view words) {
    const auto fault = launch(kernel);
    ASSERT_TRUE(fault.has_value()) << kernel;
    EXPECT_EQ(fault->kind, kind) << fault->report;
    EXPECT_NE(fault->report.find(words), std::string::npos) << fault->report;
    EXPECT_NE(fault->report.find(kernel), std::string::npos) << fault->report;
  }
  void expect_clean(const char* kernel) {
    const auto fault = launch(kernel);
    EXPECT_FALSE(fault.has_value()) << fault->report;
  }

  std::shared_ptr<const LoadedCode> code;
  uint32_t *in = nullptr, *out = nullptr, *state = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Chips, CheckedKernels,
                         testing::Values("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"));

TEST_P(CheckedKernels, RacesAreFound) {
  expect("missing_barrier", Fault::Kind::race, "LDS address");
  expect("blocks_write_one_cell", Fault::Kind::race, "race: write");
  expect("reads_another_block", Fault::Kind::race, "race: ");
}

TEST_P(CheckedKernels, OtherFaultsAreFound) {
  expect("past_the_end", Fault::Kind::illegal_address, "0 bytes past the end of allocation");
  expect("unwritten_lds", Fault::Kind::uninitialised, "LDS address 0x400");
}

TEST_P(CheckedKernels, CorrectProgramsRaiseNothing) {
  for (int round = 0; round < 3; ++round) {
    expect_clean("with_barrier");
    expect_clean("blocks_write_the_same");
    std::fill_n(state, 1024, 0u);
    expect_clean("last_block_reduction");
    uint32_t total = 0;
    for (int i = 0; i < 4096; ++i) total += in[i];
    EXPECT_EQ(out[0], total);
    std::fill_n(state, 1024, 0u);
    expect_clean("look_back");
    uint32_t prefix = 0;
    for (int i = 0; i < 15 * 256; ++i) prefix += in[i];
    EXPECT_EQ(out[15 * 256], prefix);
    std::fill_n(state, 1024, 0u);
    expect_clean("histogram");
    uint32_t counted = 0;
    for (int i = 0; i < 64; ++i) counted += state[i];
    EXPECT_EQ(counted, 4096u);
  }
}

}  // namespace
}  // namespace hipemu
