// hiprtc: options, logs, names, headers, and both ways of finding HIP's declarations.
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hip_library.h"

using namespace hip_test;

namespace {

struct Rtc {
  explicit Rtc(void* from) : library_handle(from) {}
  void* library_handle;
#define RTC_FUNCTION(name, ...) \
  hiprtcResult (*name)(__VA_ARGS__) = symbol<hiprtcResult(__VA_ARGS__)>(#name, library_handle)
  RTC_FUNCTION(hiprtcCreateProgram, hiprtcProgram*, const char*, const char*, int, const char**,
               const char**);
  RTC_FUNCTION(hiprtcDestroyProgram, hiprtcProgram*);
  RTC_FUNCTION(hiprtcCompileProgram, hiprtcProgram, int, const char**);
  RTC_FUNCTION(hiprtcAddNameExpression, hiprtcProgram, const char*);
  RTC_FUNCTION(hiprtcGetLoweredName, hiprtcProgram, const char*, const char**);
  RTC_FUNCTION(hiprtcGetProgramLogSize, hiprtcProgram, size_t*);
  RTC_FUNCTION(hiprtcGetProgramLog, hiprtcProgram, char*);
  RTC_FUNCTION(hiprtcGetCodeSize, hiprtcProgram, size_t*);
  RTC_FUNCTION(hiprtcGetCode, hiprtcProgram, char*);
  RTC_FUNCTION(hiprtcGetBitcodeSize, hiprtcProgram, size_t*);
  RTC_FUNCTION(hiprtcGetBitcode, hiprtcProgram, char*);
  RTC_FUNCTION(hiprtcLinkCreate, unsigned, int*, void**, hiprtcLinkState*);
  RTC_FUNCTION(hiprtcLinkAddData, hiprtcLinkState, int, void*, size_t, const char*, unsigned, int*, void**);
  RTC_FUNCTION(hiprtcLinkComplete, hiprtcLinkState, void**, size_t*);
  RTC_FUNCTION(hiprtcLinkDestroy, hiprtcLinkState);
#undef RTC_FUNCTION

  std::string log(hiprtcProgram program) const {
    size_t size = 0;
    EXPECT_EQ(hiprtcGetProgramLogSize(program, &size), HIPRTC_SUCCESS);
    std::string text(size, 'x');
    EXPECT_EQ(hiprtcGetProgramLog(program, text.data()), HIPRTC_SUCCESS);
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
  }
};

const Rtc& rtc() {
  static const Rtc functions(library());
  return functions;
}

class HipRtc : public testing::Test {
 protected:
  void SetUp() override {
    static const bool can_compile = !compile("extern \"C\" __global__ void k() {}").empty();
    if (!can_compile) GTEST_SKIP() << "no compiler";
  }
};

TEST_F(HipRtc, ErrorsAreInTheLog) {
  hiprtcProgram program = nullptr;
  ASSERT_EQ(rtc().hiprtcCreateProgram(&program, "__global__ void k() { nonsense; }\n", "my_kernel.cu", 0,
                                      nullptr, nullptr),
            HIPRTC_SUCCESS);
  EXPECT_EQ(rtc().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_ERROR_COMPILATION);
  const std::string log = rtc().log(program);
  EXPECT_NE(log.find("my_kernel.cu:1:"), std::string::npos) << log;
  EXPECT_NE(log.find("nonsense"), std::string::npos) << log;
  size_t size = 0;
  EXPECT_EQ(rtc().hiprtcGetCodeSize(program, &size), HIPRTC_ERROR_INVALID_PROGRAM);
  EXPECT_EQ(rtc().hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
  EXPECT_EQ(program, nullptr);
}

TEST_F(HipRtc, NamesOfTemplatesAndVariables) {
  const char* text = R"(
    namespace n { template <int N, class T> __global__ void f(T* p) { p[threadIdx.x] = N; } }
    __device__ int global_counter; namespace m { __constant__ float c[2]; }
    __global__ void overload(int) {}
  )";
  hiprtcProgram program = nullptr;
  ASSERT_EQ(rtc().hiprtcCreateProgram(&program, text, nullptr, 0, nullptr, nullptr), HIPRTC_SUCCESS);
  for (const char* name : {"n::f<3, float>", "n::f<4,int>", "&global_counter", "&m::c", "overload"})
    EXPECT_EQ(rtc().hiprtcAddNameExpression(program, name), HIPRTC_SUCCESS);
  const char* lowered = nullptr;
  EXPECT_EQ(rtc().hiprtcGetLoweredName(program, "overload", &lowered),
            HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
  ASSERT_EQ(rtc().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_SUCCESS) << rtc().log(program);
  const auto name_of = [&](const char* expression) {
    const char* name = nullptr;
    EXPECT_EQ(rtc().hiprtcGetLoweredName(program, expression, &name), HIPRTC_SUCCESS) << expression;
    return std::string(name ? name : "");
  };
  EXPECT_EQ(name_of("n::f<3, float>"), "_ZN1n1fILi3EfEEvPT0_");
  EXPECT_EQ(name_of("n::f<4,int>"), "_ZN1n1fILi4EiEEvPT0_");
  EXPECT_EQ(name_of("&global_counter"), "global_counter");
  EXPECT_EQ(name_of("&m::c"), "_ZN1m1cE");
  EXPECT_EQ(name_of("overload"), "_Z8overloadi");
  EXPECT_EQ(rtc().hiprtcGetLoweredName(program, "other", &lowered), HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
  EXPECT_EQ(rtc().hiprtcAddNameExpression(program, "late"),
            HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
  rtc().hiprtcDestroyProgram(&program);
}

TEST_F(HipRtc, HeadersAndOptions) {
  const char* headers[] = {"#include \"b.h\"\n#define A 1\n", "#define B 2\n"};
  const char* names[] = {"inner/a.h", "inner/b.h"};
  const char* text =
      "#include \"inner/a.h\"\nstatic_assert(A + B + C == 6, \"\");\n"
      "static_assert(__cplusplus >= 201703L, \"\");\nextern \"C\" __global__ void k() {}\n";
  hiprtcProgram program = nullptr;
  ASSERT_EQ(rtc().hiprtcCreateProgram(&program, text, "p", 2, headers, names), HIPRTC_SUCCESS);
  const char* options[] = {"-DC=3", "--std=c++17", "--gpu-architecture=gfx942",
                           "-O1",   "-mllvm",      "-amdgpu-early-inline-all=true"};
  EXPECT_EQ(rtc().hiprtcCompileProgram(program, 6, options), HIPRTC_SUCCESS) << rtc().log(program);
  rtc().hiprtcDestroyProgram(&program);
  const char* outside[] = {"../a.h"};
  EXPECT_EQ(rtc().hiprtcCreateProgram(&program, text, "p", 1, headers, outside), HIPRTC_ERROR_INVALID_INPUT);
}

// What many programs begin with is parsed once. That must not show: not in what a header says, whether it has
// a guard or not, nor in the lines that errors name.
TEST_F(HipRtc, ManyProgramsThatBeginAlike) {
  const auto result = [](const std::string& text, const char* value, std::string* log = nullptr) {
    const std::string header =
        std::string("#define VALUE ") + value + "\nstatic const int twice = 2 * VALUE;\n";
    const char* headers[] = {header.c_str(), "#pragma once\nconstexpr int once = 1;\n"};
    const char* names[] = {"value.h", "once.h"};
    hiprtcProgram program = nullptr;
    EXPECT_EQ(rtc().hiprtcCreateProgram(&program, text.c_str(), "p.hip", 2, headers, names), HIPRTC_SUCCESS);
    const char* options[] = {"-std=c++17"};
    const hiprtcResult outcome = rtc().hiprtcCompileProgram(program, 1, options);
    if (log) *log = rtc().log(program);
    rtc().hiprtcDestroyProgram(&program);
    return outcome;
  };
  const std::string begins = "// A program.\n#include \"value.h\"\n\n#include \"once.h\"\n";
  const auto expects = [&](const char* condition) {
    return begins + "static_assert(once == 1, \"\");\n#include \"once.h\"\nstatic_assert(" + condition +
           ", \"\");\nextern \"C\" __global__ void k(int* p) { *p = twice; }\n";
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(result(expects("VALUE + twice + once == 10"), "3"), HIPRTC_SUCCESS) << i;
    ASSERT_EQ(result(expects("VALUE + twice + once == 13"), "4"), HIPRTC_SUCCESS) << i;
    ASSERT_EQ(result("#define once two\n" + begins + "static_assert(two == 1, \"\");\n", "3"), HIPRTC_SUCCESS)
        << i;
  }
  std::string log;
  EXPECT_EQ(result(expects("VALUE == 4"), "3", &log), HIPRTC_ERROR_COMPILATION);
  EXPECT_NE(log.find("p.hip:7:"), std::string::npos) << log;
}

TEST_F(HipRtc, HalfVectorsAndMathematicsWithAndWithoutHeaders) {
  const char* text = R"(
    #include <hip/hip_runtime.h>
    #include <hip/hip_fp16.h>
    extern "C" __global__ void k(float* out, __half* h, float4* v, int n) {
      __shared__ float s[64];
      s[threadIdx.x % 64] = __half2float(h[threadIdx.x]) + sinf(v[0].x);
      __syncthreads();
      float x = __shfl_xor(s[threadIdx.x % 64], 1) + powf(2.0f, (float)n);
      v[threadIdx.x] = make_float4(x, x, x, x);
      h[threadIdx.x] = __float2half(x);
      atomicAdd(out, max(x, 1.0f));
      if (__any(x > 3) && blockIdx.x == gridDim.x - 1) out[1] = __popcll(__ballot(x > 0)) + warpSize;
    })";
  for (const char* chip : {"--offload-arch=gfx1100", "--offload-arch=gfx90a", "--offload-arch=gfx1201"}) {
    EXPECT_FALSE(compile(text, {chip}).empty()) << chip;
  }
  const ChildResult child = run_child("DISABLED_HipRtcChild.*", {"HIPEMU_HIPRTC=builtin"});
  EXPECT_EQ(child.status, 0) << child.output;
  setenv("HIPEMU_HIPRTC", "builtin", 1);
  for (const char* chip : {"--offload-arch=gfx1100", "--offload-arch=gfx942", "--offload-arch=gfx1030"})
    EXPECT_FALSE(compile(text, {chip}).empty()) << chip;
  unsetenv("HIPEMU_HIPRTC");
}

// With the library's own declarations: indices, sizes of the grid, lanes and mathematics give what they
// should.
TEST(DISABLED_HipRtcChild, BuiltinDeclarationsWork) {
  const std::string code = compile(R"(
    extern "C" __global__ void k(float* out, unsigned* ids) {
      const unsigned i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
      ids[i] = gridDim.y * 1000 + blockDim.x + __shfl(threadIdx.x + 0u, 5);
      out[i] = expf(sinf((float)i)) + fmaxf(1.0f, (float)i) + (float)(__half)0.5f;
    })");
  ASSERT_FALSE(code.empty());
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  ASSERT_HIP(hipModuleLoadData(&module, code.data()));
  ASSERT_HIP(hipModuleGetFunction(&function, module, "k"));
  float* out = nullptr;
  unsigned* ids = nullptr;
  ASSERT_HIP(hipMalloc(reinterpret_cast<void**>(&out), 192 * 4));
  ASSERT_HIP(hipMalloc(reinterpret_cast<void**>(&ids), 192 * 4));
  void* parameters[] = {&out, &ids};
  ASSERT_HIP(hipModuleLaunchKernel(function, 2, 3, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  float values[192];
  unsigned numbers[192];
  ASSERT_HIP(hipMemcpy(values, out, sizeof values, hipMemcpyDeviceToHost));
  ASSERT_HIP(hipMemcpy(numbers, ids, sizeof numbers, hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < 192; ++i) {
    EXPECT_EQ(numbers[i], 3037u);
    const double expected =
        std::exp(std::sin(static_cast<double>(i))) + std::max(1.0, static_cast<double>(i)) + 0.5;
    EXPECT_NEAR(values[i], expected, 1e-4 * expected);
  }
}

TEST_F(HipRtc, BitcodeCanBeLinked) {
  hiprtcProgram program = nullptr;
  ASSERT_EQ(rtc().hiprtcCreateProgram(&program, "extern \"C\" __global__ void k(int* p) { *p = 77; }", "p", 0,
                                      nullptr, nullptr),
            HIPRTC_SUCCESS);
  const char* options[] = {"-fgpu-rdc"};
  ASSERT_EQ(rtc().hiprtcCompileProgram(program, 1, options), HIPRTC_SUCCESS) << rtc().log(program);
  size_t size = 0;
  ASSERT_EQ(rtc().hiprtcGetBitcodeSize(program, &size), HIPRTC_SUCCESS);
  std::string bitcode(size, 0);
  ASSERT_EQ(rtc().hiprtcGetBitcode(program, bitcode.data()), HIPRTC_SUCCESS);
  rtc().hiprtcDestroyProgram(&program);
  hiprtcLinkState state = nullptr;
  ASSERT_EQ(rtc().hiprtcLinkCreate(0, nullptr, nullptr, &state), HIPRTC_SUCCESS);
  EXPECT_EQ(rtc().hiprtcLinkAddData(state, 1, bitcode.data(), size, "a", 0, nullptr, nullptr),
            HIPRTC_ERROR_INVALID_INPUT)
      << "PTX";
  ASSERT_EQ(rtc().hiprtcLinkAddData(state, 100, bitcode.data(), size, "a", 0, nullptr, nullptr),
            HIPRTC_SUCCESS);
  void* image = nullptr;
  ASSERT_EQ(rtc().hiprtcLinkComplete(state, &image, &size), HIPRTC_SUCCESS);
  hipModule_t module = nullptr;
  EXPECT_HIP(hipModuleLoadData(&module, image));
  EXPECT_EQ(rtc().hiprtcLinkDestroy(state), HIPRTC_SUCCESS);
  EXPECT_EQ(rtc().hiprtcLinkDestroy(state), HIPRTC_ERROR_INVALID_INPUT);
  EXPECT_HIP(hipModuleUnload(module));
}

TEST(HipRtcBad, Arguments) {
  hiprtcProgram program = nullptr;
  EXPECT_EQ(rtc().hiprtcCreateProgram(&program, nullptr, "p", 0, nullptr, nullptr),
            HIPRTC_ERROR_INVALID_INPUT);
  EXPECT_EQ(rtc().hiprtcCreateProgram(&program, "", "p", 2, nullptr, nullptr), HIPRTC_ERROR_INVALID_INPUT);
  EXPECT_EQ(rtc().hiprtcCompileProgram(made_up<hiprtcProgram>(), 0, nullptr), HIPRTC_ERROR_INVALID_PROGRAM);
  program = made_up<hiprtcProgram>();
  EXPECT_EQ(rtc().hiprtcDestroyProgram(&program), HIPRTC_ERROR_INVALID_PROGRAM);
}

TEST_F(HipRtc, TheLibraryOfItsOwnSharesTheState) {
  void* separate = dlopen(HIPEMU_LIBRARY_FOLDER "/libhiprtc.so.7", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(separate, nullptr) << dlerror();
  const Rtc other(separate);
  EXPECT_NE(reinterpret_cast<void*>(other.hiprtcCompileProgram),
            reinterpret_cast<void*>(rtc().hiprtcCompileProgram));
  hiprtcProgram program = nullptr;
  ASSERT_EQ(
      other.hiprtcCreateProgram(&program, "extern \"C\" __global__ void k() {}", "p", 0, nullptr, nullptr),
      HIPRTC_SUCCESS);
  EXPECT_EQ(rtc().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_SUCCESS);
  EXPECT_EQ(other.hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
}

TEST_F(HipRtc, NoTemporaryFilesStay) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("rtc-test-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([] { EXPECT_FALSE(compile("extern \"C\" __global__ void k() {}").empty()); });
  for (std::thread& thread : threads) thread.join();
  hiprtcProgram program = nullptr;
  rtc().hiprtcCreateProgram(&program, "error", "p", 0, nullptr, nullptr);
  EXPECT_EQ(rtc().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_ERROR_COMPILATION);
  rtc().hiprtcDestroyProgram(&program);
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST_F(HipRtc, LeavesNoChild) {
  EXPECT_FALSE(compile("extern \"C\" __global__ void k() {}").empty());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(HipRtc, AForkedChildCompiles) {
  EXPECT_FALSE(compile("extern \"C\" __global__ void k() {}").empty());
  const pid_t child = fork();
  if (child == 0) _exit(compile("extern \"C\" __global__ void in_child() {}").empty() ? 1 : 0);
  EXPECT_FALSE(compile("extern \"C\" __global__ void in_parent() {}").empty());
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(HipRtc, TheCompilerMayBeAScript) {
  char folder[] = "/tmp/hip_rtc_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::filesystem::path script = std::filesystem::path(folder) / "compiler";
  std::ofstream(script) << "#!/bin/sh\nexec clang++-19 \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  setenv("HIPEMU_CLANG", script.c_str(), 1);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(compile("extern \"C\" __global__ void k() {}").empty());
  unsetenv("HIPEMU_CLANG");
  std::filesystem::remove_all(folder);
}

TEST(HipRtcBad, ACompilerThatDoesNotExist) {
  setenv("HIPEMU_CLANG", "/nonexistent/clang++", 1);
  hiprtcProgram program = nullptr;
  ASSERT_EQ(rtc().hiprtcCreateProgram(&program, "", "p", 0, nullptr, nullptr), HIPRTC_SUCCESS);
  EXPECT_EQ(rtc().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_ERROR_COMPILATION);
  EXPECT_NE(rtc().log(program).find("/nonexistent/clang++"), std::string::npos) << rtc().log(program);
  rtc().hiprtcDestroyProgram(&program);
  unsetenv("HIPEMU_CLANG");
}

}  // namespace
