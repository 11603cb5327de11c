// What `hearth kernels build` demands of kernels: those that break a demand are found, and kernels that once
// broke one, or easily would, keep them all.
#include "cli/kernel_build.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "hearth/hearth.h"
#include "tensor/key_value_cache.h"

namespace hearth::cli {
namespace {

class KernelBuild : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("HIPEMU") == nullptr) GTEST_SKIP() << "no compiler for AMD chips";
  }
};

std::vector<BuiltKernel> built(const std::vector<NeededKernel>& kernels) {
  return build_kernels(kernels, 2, [](std::size_t, std::size_t) {});
}

NeededKernel kernel(const std::string& architecture, const std::string& name, const std::string& text,
                    std::size_t packet_bytes = 0, unsigned shared = 0) {
  return {gpu::target_of(architecture),
          "test",
          {{"test", "#include \"gpu.h\"\n" + text, {}, packet_bytes}, name, 256, shared},
          "test"};
}

TEST_F(KernelBuild, FindsWhatIsWrong) {
  const std::string add_one = "KERNEL void f(f32* x) { x[threadIdx.x] += 1; }\n";
  // Values that all have to be kept, more than a wave's share of the registers when 1024 threads share them.
  const std::string many_values =
      "KERNEL_OF(1024) void f(volatile f32* x) {\n  f32 v[220];\n"
      "#pragma unroll\n  for (int i = 0; i < 220; ++i) v[i] = x[threadIdx.x + 1024 * i];\n"
      "#pragma unroll\n  for (int i = 0; i < 220; ++i) x[threadIdx.x + 1024 * i] = v[219 - i];\n}\n";
  const std::string indexed_array =
      "KERNEL void f(i32* x, int n) {\n  i32 v[64];\n  for (int i = 0; i < n; ++i) v[x[i] & 63] = x[i + "
      "64];\n"
      "  for (int i = 0; i < n; ++i) x[threadIdx.x + 256 * i] = v[(x[i] + threadIdx.x) & 63];\n}\n";
  const std::string no_matrix_unit = "// MmaTile<\nKERNEL void matmul(f32* x) { x[threadIdx.x] *= 2; }\n";
  const std::string copy = "KERNEL void f(Unit16* x, const Unit16* y) { x[threadIdx.x] = y[threadIdx.x]; }\n";
  struct Case {
    NeededKernel kernel;
    std::string fault;  // part of it; empty: there is none
  };
  std::vector<Case> cases;
  for (const char* chip : {"gfx1100", "gfx942"}) {
    cases.push_back({kernel(chip, "f", add_one), ""});
    cases.push_back({kernel(chip, "f", add_one, 0, 64 << 10), ""});
    cases.push_back({kernel(chip, "f", add_one, 0, (64 << 10) + 4), "65540 bytes of LDS"});
    cases.push_back({kernel(chip, "f", "KERNEL void f() { nonsense }\n"), "nonsense"});
    cases.push_back({kernel(chip, "f", "KERNEL void g() {}\n"), "the code has no kernel f"});
    cases.push_back({kernel(chip, "f", many_values), "vector registers are spilled"});
    cases.push_back({kernel(chip, "f", indexed_array), "bytes of memory per lane"});
    if (disassembler().empty()) continue;
    cases.push_back({kernel(chip, "f", add_one, 16), "it has no load of 16 bytes"});
    cases.push_back({kernel(chip, "f", copy, 16), ""});
    cases.push_back({kernel(chip, "matmul", no_matrix_unit), "no instruction of the matrix unit"});
  }
  cases.push_back({kernel("gfx1030", "matmul", no_matrix_unit), ""});
  std::vector<NeededKernel> kernels;
  for (const Case& c : cases) kernels.push_back(c.kernel);
  const auto results = built(kernels);
  ASSERT_EQ(results.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string fault = fault_of(results[i]);
    EXPECT_EQ(fault.empty(), cases[i].fault.empty()) << fault << kernels[i].kernel.source.text;
    EXPECT_NE(fault.find(cases[i].fault), std::string::npos)
        << fault << " instead of " << cases[i].fault << '\n'
        << kernels[i].kernel.source.text;
  }
}

Tensor given(const Shape& shape, DType dtype) { return zeros(shape, dtype).eval(); }

// The kernels of a function of the default device, on a chip.
void expect_sound(const std::string& architecture, const std::string& name,
                  const std::function<void()>& run) {
  const auto kernels = built(find_kernels(architecture, {{name, run}}));
  EXPECT_FALSE(kernels.empty());
  for (const BuiltKernel& one : kernels)
    EXPECT_EQ(fault_of(one), "") << architecture << ' ' << one.needed.label << " of " << name << '\n'
                                 << one.needed.kernel.source.text;
}

TEST_F(KernelBuild, ChipsThatTheCompilerDoesNotKnowAreRefused) {
  require_architecture("gfx1100");
  try {
    require_architecture("gfx9999");
    FAIL() << "was compiled";
  } catch (const ValueError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("nothing can be compiled for gfx9999: ")) << message;
    EXPECT_NE(message.find("invalid target"), std::string::npos) << message;
  }
}

TEST_F(KernelBuild, ProductsOfBytesThatAreFetchedOneByOne) {
  for (const char* chip : {"gfx1100", "gfx1201"})
    expect_sound(chip, "matmul i8", [] {
      for (const std::int64_t depth : {1024, 1021})
        eval({matmul(given({1024, depth}, DType::i8), given({depth, 1023}, DType::i8))});
    });
}

TEST_F(KernelBuild, AttentionOfLongHeadsAndItsGradients) {
  for (const char* chip : {"gfx1201", "gfx90a"})
    expect_sound(chip, "attention bf16", [] {
      Tensor q = given({2, 8, 256, 128}, DType::bf16), k = given({2, 2, 256, 128}, DType::bf16),
             v = given({2, 2, 256, 128}, DType::bf16);
      for (Tensor* x : {&q, &k, &v}) x->requires_grad_();
      const Tensor y = attention(q, k, v, {.causal = true});
      y.backward(given(y.shape(), y.dtype()));
      eval({y, q.grad(), k.grad(), v.grad()});
    });
}

TEST_F(KernelBuild, WeightsInBlocks) {
  const std::vector<std::byte> blocks(static_cast<std::size_t>(storage_bytes(DType::q8_0, 1024 * 1024)));
  for (const char* chip : {"gfx1102", "gfx942"})
    expect_sound(chip, "q8_0", [&] {
      const Tensor weight = from_blocks(blocks, {1024, 1024}, DType::q8_0);
      for (const std::int64_t rows : {1, 8, 256}) eval({linear(given({rows, 1024}, DType::f16), weight)});
    });
}

TEST_F(KernelBuild, CachesOfBytesWithScales) {
  for (const char* chip : {"gfx1100", "gfx942"})
    expect_sound(chip, "cache q8_0", [] {
      for (const std::int64_t size : {64, 128}) {
        const ScaledBytes rows = to_scaled_bytes(given({4, 8, size}, DType::f32));
        const Tensor bytes = given({1024, 8, size}, DType::i8),
                     scales = given({1024, 8, size / scaled_run}, DType::f16), slots = given({4}, DType::i64);
        eval({store_rows(bytes, slots, rows.bytes), store_rows(scales, slots, rows.scales)});
        eval({cached_attention(given({4, 32, size}, DType::f32), {bytes, scales}, {bytes, scales}, slots,
                               slots, given({1, 32}, DType::i64), {.page = 32})});
      }
    });
}

TEST_F(KernelBuild, WhereMemoryIsTheLimit) {
  for (const char* chip : {"gfx1030", "gfx1151"})
    expect_sound(chip, "memory", [] {
      const Tensor x = given({512, 4096}, DType::f16), row = given({4096}, DType::f16);
      eval({x * row + x});
      eval({where(x > row, x, row)});
      eval({sum(x, {1}), softmax(x), contiguous(transpose(x, 0, 1))});
      eval({matmul(x, reshape(row, {4096, 1}))});
    });
}

// Every program that kernels are compiled for ahead of time runs on GPUs that are not there; no compiler is
// needed.
TEST(Workloads, RunWithoutTheirGpu) {
  std::vector<Workload> programs = kernel_workloads();
  // Of models, those whose weights take the least time to make.
  std::erase_if(programs, [](const Workload& each) {
    return each.name.starts_with("generate") && each.name != "generate q4_0";
  });
  for (const std::string architecture : {"gfx1100", "gfx942", "sm_90"}) {
    const std::vector<NeededKernel> needed = find_kernels(architecture, programs);
    std::set<std::string> workloads;
    for (const NeededKernel& each : needed) workloads.insert(each.workload);
    EXPECT_GT(workloads.size(), 30u) << architecture;
  }
}

}  // namespace
}  // namespace hearth::cli
