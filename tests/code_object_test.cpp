// Reading compiled kernels: figures of made and of real code, and what damaged files do.
#include "gpu/code_object.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "gpu/compiler.h"
#include "gpu/occupancy.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// An AMD code object that has nothing but its metadata.
std::vector<char> amd_code(const nlohmann::json& metadata) {
  const auto packed = nlohmann::json::to_msgpack(metadata);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, 4);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = 224;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  const std::uint32_t note[3] = {7, static_cast<std::uint32_t>(packed.size()), 32};
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = sizeof note + 8 + (packed.size() + 3) / 4 * 4;
  std::vector<char> bytes;
  const auto append = [&](const void* data, std::size_t size) {
    bytes.insert(bytes.end(), static_cast<const char*>(data), static_cast<const char*>(data) + size);
  };
  append(&header, sizeof header);
  append(&segment, sizeof segment);
  append(note, sizeof note);
  append("AMDGPU\0", 8);
  append(packed.data(), packed.size());
  bytes.resize(segment.p_offset + segment.p_filesz);
  return bytes;
}

const nlohmann::json example = {{"amdhsa.target", "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"},
                                {"amdhsa.kernels",
                                 {{{".name", "multiply"},
                                   {".vgpr_count", 132},
                                   {".agpr_count", 64},
                                   {".sgpr_count", 40},
                                   {".vgpr_spill_count", 3},
                                   {".sgpr_spill_count", 1},
                                   {".group_segment_fixed_size", 32768},
                                   {".private_segment_fixed_size", 16}},
                                  {{".name", "copy"},
                                   {".vgpr_count", 8},
                                   {".sgpr_count", 12},
                                   {".group_segment_fixed_size", 0},
                                   {".private_segment_fixed_size", 0}}}}};

TEST(CodeObject, AmdMetadata) {
  const CodeObject object = read_code_object(amd_code(example));
  EXPECT_EQ(object.architecture, "gfx942");
  ASSERT_EQ(object.kernels.size(), 2u);
  const KernelResources& kernel = object.kernels[0];
  EXPECT_EQ(kernel.name, "multiply");
  EXPECT_EQ(kernel.vector_registers, 132);
  EXPECT_EQ(kernel.accumulation_registers, 64);
  EXPECT_EQ(kernel.scalar_registers, 40);
  EXPECT_EQ(kernel.vector_spills, 3);
  EXPECT_EQ(kernel.scalar_spills, 1);
  EXPECT_EQ(kernel.shared_bytes, 32768u);
  EXPECT_EQ(kernel.scratch_bytes, 16u);
  EXPECT_EQ(object.kernels[1].vector_spills, 0);
}

TEST(CodeObject, ABundleIsOpened) {
  const std::vector<char> code = amd_code(example);
  std::string bundle = "__CLANG_OFFLOAD_BUNDLE__";
  const auto number = [&](std::uint64_t value) { bundle.append(reinterpret_cast<const char*>(&value), 8); };
  const std::string host = "host-x86_64-unknown-linux--", device = "hipv4-amdgcn-amd-amdhsa--gfx942";
  number(2);
  number(256), number(0), number(host.size());
  bundle += host;
  number(256), number(code.size()), number(device.size());
  bundle += device;
  bundle.resize(256);
  bundle.append(code.data(), code.size());
  EXPECT_EQ(read_code_object(bundle).kernels.size(), 2u);
}

// Whatever is given, an answer or a ValueError comes back.
void expect_survives(std::span<const char> bytes) {
  try {
    read_code_object(bytes);
  } catch (const ValueError&) {
  }
}

void damage(const std::vector<char>& code) {
  for (std::size_t size = 0; size < code.size(); size += std::max<std::size_t>(1, code.size() / 997))
    expect_survives(std::span(code).first(size));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> changed = code;
    for (int k = 0; k < 4; ++k) {
      // Headers matter most.
      const std::size_t range = k % 2 == 0 ? std::min<std::size_t>(code.size(), 128) : code.size();
      changed[random() % range] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    expect_survives(changed);
  }
}

TEST(CodeObject, DamagedFilesAreRefused) {
  EXPECT_THROW(read_code_object({}), ValueError);
  EXPECT_THROW(read_code_object(std::string("\x7f"
                                            "ELF")),
               ValueError);
  EXPECT_THROW(read_code_object(amd_code({{"amdhsa.kernels", 3}})), ValueError);
  EXPECT_THROW(read_code_object(amd_code({{"other", 1}})), ValueError);
  EXPECT_THROW(read_code_object(amd_code({{"amdhsa.kernels", {{{".name", 5}}}}})), ValueError);
  EXPECT_THROW(read_code_object(std::string("__CLANG_OFFLOAD_BUNDLE__\xff\xff\xff\xff\xff\xff\xff\x7f")),
               ValueError);
  damage(amd_code(example));
}

// Kernels with known needs, from the real compilers where they are.
const char* const shared_text =
    "#include \"gpu.h\"\n"
    "KERNEL void shared(const f32* in, f32* out) {\n"
    "  __shared__ f32 tile[1024];\n"
    "  tile[threadIdx.x] = in[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  out[threadIdx.x] = tile[1023 - threadIdx.x];\n}\n"
    "KERNEL void stack(const i32* in, f32* out) {\n"
    "  f32 table[64];\n"
    "  for (int i = 0; i < 64; ++i) table[in[i]] = (f32)i;\n"
    "  out[threadIdx.x] = table[in[threadIdx.x]];\n}\n";

void check_compiled(const Driver& driver, const std::string& architecture) {
  const Target target = target_of(architecture);
  const std::vector<char> code =
      compile_uncached(driver, architecture, target.wave_size, {"shared", shared_text, {}});
  const CodeObject object = read_code_object(code);
  EXPECT_EQ(object.architecture, architecture);
  ASSERT_EQ(object.kernels.size(), 2u);
  for (const KernelResources& kernel : object.kernels) {
    EXPECT_GT(kernel.vector_registers, 0);
    EXPECT_LE(kernel.vector_registers, 256);
    EXPECT_EQ(kernel.shared_bytes, kernel.name == "shared" ? 4096u : 0u) << kernel.name;
    if (kernel.name == "stack")
      EXPECT_GE(kernel.scratch_bytes, 256u);
    else
      EXPECT_EQ(kernel.scratch_bytes, 0u);
  }
  damage(code);
}

TEST(CodeObject, WhatHiprtcMakes) {
  if (hip_driver().compiler_library.empty()) GTEST_SKIP() << "no hiprtc";
  for (const char* architecture : {"gfx1030", "gfx90a"}) check_compiled(hip_driver(), architecture);
}

TEST(CodeObject, WhatNvrtcMakes) {
  if (cuda_driver().compiler_library.empty()) GTEST_SKIP() << "no NVRTC";
  for (const char* architecture : {"sm_80", "sm_90"}) check_compiled(cuda_driver(), architecture);
}

TEST(Occupancy, FollowsTheScarcestResource) {
  const auto resident = [](const char* architecture, int registers, std::uint32_t shared, int threads = 256) {
    KernelResources resources;
    resources.vector_registers = registers;
    resources.shared_bytes = shared;
    return occupancy(target_of(architecture), resources, threads).resident;
  };
  // AMD: waves per SIMD.
  EXPECT_EQ(resident("gfx1100", 32, 0), 16);
  EXPECT_EQ(resident("gfx1100", 97, 0), 12);  // 120 of 1536
  EXPECT_EQ(resident("gfx1100", 256, 0), 5);  // 264 of 1536
  EXPECT_EQ(resident("gfx1030", 256, 0), 4);
  EXPECT_EQ(resident("gfx1010", 40, 0), 20);
  EXPECT_EQ(resident("gfx906", 64, 0), 4);
  EXPECT_EQ(resident("gfx942", 64, 0), 8);
  EXPECT_EQ(resident("gfx942", 512, 0), 1);
  EXPECT_EQ(resident("gfx942", 64, 65536), 1);   // one block of four waves on four SIMDs
  EXPECT_EQ(resident("gfx1100", 32, 32768), 8);  // two blocks of eight waves on two SIMDs
  // NVIDIA: blocks per multiprocessor.
  EXPECT_EQ(resident("sm_90", 32, 0), 8);
  EXPECT_EQ(resident("sm_90", 128, 0), 2);
  EXPECT_EQ(resident("sm_90", 32, 100 << 10), 2);
  EXPECT_EQ(resident("sm_90", 16, 0, 64), 32);
  EXPECT_EQ(resident("sm_86", 32, 0), 6);
}

}  // namespace
}  // namespace hearth::gpu
