// What happens when something fails: the emulated GPU fails on demand, and each time there must be the right
// error, no hang, no silent move to the CPU, and where the fault was of one call, right results afterwards.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "expect_error.h"
#include "gpu/compiler.h"
#include "gpu/driver/driver.h"
#include "gpu/kernel_cache.h"
#include "hearth/hearth.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

constexpr std::size_t mib = 1 << 20;
const Device device{DeviceKind::rocm, 0};

// The emulator's switch; null where the driver is a real one.
using Fail = int (*)(const char*);
Fail fail_function() {
  static const Fail function = []() -> Fail {
    if (devices().size() < 2 || devices()[1].kind != DeviceKind::rocm) return nullptr;
    void* library = dlopen(gpu::hip_driver().library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return library != nullptr ? reinterpret_cast<Fail>(dlsym(library, "hipemuFail")) : nullptr;
  }();
  return function;
}
void fail(const std::string& faults) { ASSERT_EQ(fail_function()(faults.c_str()), 1) << faults; }

class GpuFault : public testing::Test {
 protected:
  void SetUp() override {
    if (fail_function() == nullptr) GTEST_SKIP() << "no emulated GPU";
    workload();  // kernels are compiled
    synchronize(device);
    empty_cache(device);
  }
  void TearDown() override {
    if (fail_function() != nullptr) fail("");
  }

  // Uploads, steps, a plan that becomes a graph, a download.
  static void workload() {
    const Tensor x = arange(0, 64, 1).reshape({8, 8}).to(device);
    auto compiled = compile([](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{tanh(matmul(in[0] * 0.01, in[0])).sum({1}), in[0].max({0})};
    });
    std::vector<Tensor> kept;
    for (int run = 0; run < 4; ++run) {
      kept = compiled({x + static_cast<double>(run)});
      const auto values = kept[1].to(Device{}).to_vector<float>();
      for (int i = 0; i < 8; ++i)
        if (values[static_cast<std::size_t>(i)] != static_cast<float>(56 + i + run))
          throw std::logic_error("wrong result");
    }
    const Tensor host = arange(0, 64, 1).reshape({8, 8}) + 3.0;
    const auto got = kept[0].to(Device{}).to_vector<float>();
    const auto expected = tanh(matmul(host * 0.01, host)).sum({1}).to_vector<float>();
    for (std::size_t i = 0; i < 8; ++i)
      if (std::abs(got[i] - expected[i]) > 1e-4) throw std::logic_error("wrong result");
  }
};

// ---- memory

TEST_F(GpuFault, AFailedAllocationIsTriedAgainWithoutTheCache) {
  { const Tensor large = zeros({4 << 20}, DType::u8).to(device); }  // kept for later
  const std::size_t before = memory_stats(device).reserved;
  ASSERT_GE(before, 4 * mib);
  fail("hipMalloc:1=hipErrorOutOfMemory");
  const Tensor x = ones({3 << 20}, DType::u8).to(device);
  EXPECT_EQ(memory_stats(device).reserved, 3 * mib);
  EXPECT_EQ(x.to(Device{}).to_vector<std::uint8_t>()[12345], 1);
}

TEST_F(GpuFault, OutOfMemoryHasTheFigures) {
  const Tensor kept = ones({2 << 20}, DType::u8).to(device);
  fail("hipMalloc:1+=hipErrorOutOfMemory");
  try {
    ones({5 << 20}, DType::u8).to(device);
    FAIL() << "there was memory";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), 5 * mib);
    const std::string text = error.what();
    EXPECT_NE(text.find("rocm:0 has no 5.00 MiB left: 2.00 MiB in use (loaded 2.00 MiB)"), std::string::npos)
        << text;
  }
  EXPECT_THROW((kept + 1).eval(), OutOfMemory);
  fail("");
  EXPECT_EQ((kept + 1).eval().to(Device{}).to_vector<std::uint8_t>()[7], 2);
}

// The plan gets its memory before anything is changed: a step that had none can be taken again.
TEST_F(GpuFault, OutOfMemoryLeavesATrainingStepUndone) {
  manual_seed(1);
  nn::Linear layer(64, 64);
  layer.to(device);
  optim::SGD optimizer(layer.parameters(), {.learning_rate = 0.1});
  const Tensor x = ones({16, 64}).to(device);
  auto step = compile([&](const std::vector<Tensor>& in) {
    optimizer.zero_grad();
    const Tensor loss = square(layer(in[0])).mean();
    loss.backward();
    optimizer.step();
    return std::vector<Tensor>{loss.detach()};
  });
  const double first = step({x})[0].item<double>();
  empty_cache(device);
  fail("hipMalloc:1+=hipErrorOutOfMemory");
  EXPECT_THROW(step({x}), OutOfMemory);
  fail("");
  const double second = step({x})[0].item<double>(), third = step({x})[0].item<double>();
  EXPECT_LT(second, first);
  EXPECT_LT(third, second);
  EXPECT_TRUE(std::isfinite(third));
}

TEST_F(GpuFault, NoPinnedMemory) {
  fail("hipHostMalloc:1+=hipErrorOutOfMemory");
  test::expect_error<OutOfMemory>([] { ones({4}).to(device); }, {"pinned_pool_size_mb"});
  fail("");
  EXPECT_NO_THROW(workload());
}

TEST_F(GpuFault, KernelsThatDoNotFitMakeRoom) {
  { const Tensor large = zeros({4 << 20}, DType::u8).to(device); }
  fail("hipModuleLoadData:1=hipErrorOutOfMemory");
  const auto kernel = compile_kernel("extern \"C\" __global__ void loaded_late(float* p) { *p = 4711; }",
                                     "loaded_late", device);
  EXPECT_EQ(memory_stats(device).reserved, memory_stats(device).allocated);
  const Tensor x = zeros({1}).to(device);
  kernel.launch({}, x);
  EXPECT_EQ(x.to(Device{}).item<float>(), 4711.0f);
}

// ---- calls that fail once

TEST_F(GpuFault, AFailedLaunchIsAnError) {
  const Tensor x = ones({100}).to(device);
  (x * 2.0).eval();
  fail("hipModuleLaunchKernel:1=hipErrorLaunchOutOfResources");
  test::expect_error<DeviceError>([&] { (x * 2.0).eval(); },
                                  {"launching a kernel failed: too many resources requested for launch"});
  EXPECT_EQ((x * 2.0).to(Device{}).to_vector<float>()[3], 2.0f);
}

TEST_F(GpuFault, AFailedCopyIsAnError) {
  const Tensor x = ones({100}), there = x.to(device);
  fail("hipMemcpyAsync:1=hipErrorUnknown");
  test::expect_error<DeviceError>([&] { x.to(device); }, {"copying to the device failed: unknown error"});
  fail("hipMemcpyAsync:1=hipErrorUnknown");
  test::expect_error<DeviceError>([&] { there.to(Device{}); }, {"copying to the host failed: unknown error"});
  fail("hipMemcpyAsync:1=hipErrorUnknown");
  test::expect_error<DeviceError>([&] { Transfer(x, device); }, {"copying to the device failed"});
  EXPECT_EQ(Transfer(x, device).get().to(Device{}).to_vector<float>(), x.to_vector<float>());
}

TEST_F(GpuFault, AGraphThatFailsIsReplacedBySteps) {
  for (const char* function : {"hipGraphCreate", "hipGraphAddKernelNode", "hipGraphInstantiate"}) {
    fail(std::string(function) + ":1=hipErrorUnknown");
    EXPECT_NO_THROW(workload()) << function;
  }
}

// Any call, at any place: an error of ours or none, and right results with the next try.
TEST_F(GpuFault, EveryCallMayFailOnce) {
  const std::size_t allocated = memory_stats(device).allocated;
  int errors = 0;
  for (const char* function :
       {"hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree", "hipSetDevice", "hipMemcpyAsync",
        "hipModuleLaunchKernel", "hipEventCreateWithFlags", "hipEventRecord", "hipStreamWaitEvent",
        "hipGraphCreate", "hipGraphAddKernelNode", "hipGraphInstantiate", "hipGraphLaunch",
        "hipGraphExecKernelNodeSetParams", "hipGraphDestroy", "hipGraphExecDestroy"})
    for (int call = 1; call <= 12; ++call) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(call));
      empty_cache(device);
      fail(std::string(function) + ":" + std::to_string(call) + "=hipErrorUnknown");
      try {
        workload();
      } catch (const Error&) {
        ++errors;
      }
      fail("");
      ASSERT_NO_THROW(workload());
      ASSERT_EQ(memory_stats(device).allocated, allocated);
    }
  EXPECT_GT(errors, 40);
}

// ---- a device that is lost, each in a process of its own

class GpuFaultDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("HIPEMU") == nullptr) GTEST_SKIP() << "no emulated GPU";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  // Ends the process as a program does, so that the destructors of static objects run; a hang is a failure.
  [[noreturn]] static void leave(bool right) { std::exit(right ? 0 : 1); }
  static bool says(const std::function<void()>& action, const std::string& part) {
    try {
      action();
    } catch (const DeviceError& error) {
      if (std::string(error.what()).find(part) != std::string::npos) return true;
      std::fprintf(stderr, "another error: %s\n", error.what());
      return false;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "an error of another kind: %s\n", error.what());
      return false;
    }
    std::fprintf(stderr, "no error\n");
    return false;
  }
};

constexpr unsigned patience = 300;  // seconds, after which a process hangs; kernels may have to be compiled
constexpr const char* for_good = "rocm:0 cannot be used by this process any more";

// Loses the device at the `call`th call of a function from the moment on that plans are replayed.
bool loses_the_device(const char* function, int call) {
  alarm(patience);
  const Tensor x = arange(0, 64, 1).reshape({8, 8}).to(device);
  auto compiled = compile([](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{tanh(matmul(in[0] * 0.01, in[0])).sum({1}), in[0].max({0})};
  });
  const auto step = [&](double number) {
    (x * number).eval();
    return compiled({Transfer(full({8, 8}, number), device).get()})[0].to(Device{}).to_vector<float>();
  };
  for (int run = 0; run < 4; ++run) step(run);
  fail_function()((std::string(function) + ":" + std::to_string(call) + "=lost").c_str());
  bool lost = false;
  for (int run = 0; run < 40 && !lost; ++run) try {
      step(run);
    } catch (const DeviceError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      lost = std::string(error.what()).find(for_good) != std::string::npos;
      if (!lost) return false;
    }
  return lost;
}

TEST_F(GpuFaultDeathTest, ALostDeviceIsReportedFromThenOn) {
  for (const char* function : {"hipModuleLaunchKernel", "hipGraphLaunch", "hipMemcpyAsync", "hipEventQuery",
                               "hipStreamQuery", "hipEventRecord", "hipStreamWaitEvent", "hipSetDevice"})
    EXPECT_EXIT(
        {
          bool right = loses_the_device(function, 3);
          const Tensor x = ones({10});
          right &= says([&] { x.to(device); }, for_good);
          right &= says([&] { Transfer(x, device); }, for_good);
          right &= says([] { synchronize(device); }, for_good);
          right &= says([] { warm_up(device, mib); }, for_good);
          right &= (x * 2.0).to_vector<float>()[0] == 2.0f;  // the CPU is not concerned
          empty_cache(device);
          clear_plan_cache();
          right &= memory_stats(device).reserved == memory_stats(device).allocated;
          leave(right);
        },
        testing::ExitedWithCode(0), for_good)
        << function;
}

TEST_F(GpuFaultDeathTest, ALostDeviceEndsTheWaitOfAllThreads) {
  EXPECT_EXIT(
      {
        alarm(patience);
        const Tensor x = ones({1 << 16}).to(device);
        std::atomic<int> errors = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i)
          threads.emplace_back([&] {
            try {
              for (;;) (x * 2.0 + 1.0).to(Device{});
            } catch (const DeviceError&) {
              ++errors;
            }
          });
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        fail_function()("hipModuleLaunchKernel:2=lost");
        for (std::thread& thread : threads) thread.join();
        leave(errors == 3);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(GpuFaultDeathTest, ADeviceThatHangsIsGivenUp) {
  for (const char* function : {"hipStreamQuery", "hipEventQuery"})
    EXPECT_EXIT(
        {
          alarm(patience);
          const Tensor x = arange(0, 64, 1).to(device);
          (x * 2.0).to(Device{});
          Config config = hearth::config();
          config.device_timeout_s = 0.1;
          set_config(config);
          fail_function()((std::string(function) + ":1+=hipErrorNotReady").c_str());
          std::atomic<int> errors = 0;
          std::vector<std::thread> threads;
          for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] {
              errors += says(
                  [&] {
                    for (;;) Transfer((x * 2.0).to(Device{}), device).get();
                  },
                  "(device_timeout_s); rocm:0 cannot be used by this process any more");
            });
          for (std::thread& thread : threads) thread.join();
          leave(errors == 3 && says([&] { synchronize(device); }, for_good));
        },
        testing::ExitedWithCode(0), "")
        << function;
}

TEST_F(GpuFaultDeathTest, TrainingEndsWithTheError) {
  EXPECT_EXIT(
      {
        alarm(patience);
        set_default_device(device);
        auto model = std::make_shared<models::Mlp>(std::vector<std::int64_t>{16, 8, 4});
        auto optimizer = std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{});
        data::DataLoader loader(
            std::make_shared<data::TensorDataset>(std::vector<Tensor>{randn({64, 16}), randint(0, 4, {64})}),
            {.batch_size = 4, .workers = 2, .device = device});
        train::TrainerConfig config{.epochs = 10};
        config.progress.enabled = false;
        config.use_compile = true;
        train::Trainer trainer(
            model, optimizer, [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }, config);
        fail_function()("hipGraphLaunch:20=lost");
        leave(says([&] { trainer.fit(loader); }, for_good));
      },
      testing::ExitedWithCode(0), "");
}

// ---- what is missing or damaged when a process begins

// A folder that a test shares with its children.
class SharedFolder {
 public:
  SharedFolder() {
    if (const char* given = std::getenv(variable)) {
      path_ = given;
      return;
    }
    own_ = std::make_unique<test::TemporaryFolder>();
    path_ = own_->path();
    setenv(variable, path_.c_str(), 1);
  }
  ~SharedFolder() {
    if (own_) unsetenv(variable);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static constexpr const char* variable = "HEARTH_TEST_FOLDER";
  std::unique_ptr<test::TemporaryFolder> own_;
  std::filesystem::path path_;
};

bool unavailable(const std::string& part) {
  for (const auto& ask : std::vector<std::function<void()>>{
           [] { device_from_name("rocm"); }, [] { device_info(device); }, [] { ones({3}).to(device); },
           [] { set_default_device(device); }, [] { const DeviceScope scope(device); }})
    try {
      ask();
      std::fprintf(stderr, "a device that is not there was used\n");
      return false;
    } catch (const DeviceUnavailable& error) {
      std::fprintf(stderr, "%s\n", error.what());
      if (std::string(error.what()).find(part) == std::string::npos) return false;
    }
  return default_device().kind == DeviceKind::cpu;
}

TEST_F(GpuFaultDeathTest, NoDevice) {
  EXPECT_EXIT(
      {
        setenv("HIPEMU_FAIL", "hipInit:1=hipErrorNoDevice", 1);
        leave(unavailable("hipInit failed: no ROCm-capable device is detected"));
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(GpuFaultDeathTest, AnOldLibraryIsNamed) {
  EXPECT_EXIT(
      {
        setenv("ROCM_PATH", HEARTH_OLD_ROCM, 1);
        leave(unavailable("ROCm 5.2 or later is needed"));
      },
      testing::ExitedWithCode(0), "libamdhip64.so.7 lacks hipDriverGetVersion");
}

TEST_F(GpuFaultDeathTest, AFileThatIsNoLibraryIsPassedOver) {
  const SharedFolder folder;
  std::ofstream(folder.path() / "libamdhip64.so.7") << "this is no library";
  EXPECT_EXIT(
      {
        const std::string path = folder.path().string() + ":" + std::getenv("LD_LIBRARY_PATH");
        setenv("LD_LIBRARY_PATH", path.c_str(), 1);
        bool tried = false;
        for (const gpu::OpenAttempt& attempt : gpu::hip_driver().attempts)
          tried |= attempt.name.find(folder.path().string()) == 0 && !attempt.problem.empty();
        leave(tried && (ones({3}).to(device) + 1.0).to(Device{}).to_vector<float>()[0] == 2.0f);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(GpuFaultDeathTest, AChipNobodyHasHeardOf) {
  EXPECT_EXIT(
      {
        setenv("HIPEMU", (std::string(std::getenv("HIPEMU")) + "=gfx4711").c_str(), 1);
        bool right = device_info(device_from_name("gpu")).architecture == "gfx4711";
        try {
          (ones({3}).to(device) + 1.0).eval();
          right = false;
        } catch (const CompileError& error) {
          std::fprintf(stderr, "%s\n", error.what());
          right &= error.log().find("gfx4711") != std::string::npos;
        }
        leave(right);
      },
      testing::ExitedWithCode(0), "did not compile for gfx4711");
}

TEST_F(GpuFaultDeathTest, NoCompiler) {
  EXPECT_EXIT(
      {
        setenv("HIPEMU_CLANG", "/nowhere/clang++", 1);
        setenv("HEARTH_KERNEL_CACHE", "off", 1);
        try {
          (ones({3}).to(device) + 1.0).eval();
          leave(false);
        } catch (const CompileError& error) {
          std::fprintf(stderr, "%s\n", error.what());
        }
        leave(true);
      },
      testing::ExitedWithCode(0), "did not compile");
}

void damage(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 2));
  file.write("damage", 6);
}

TEST_F(GpuFaultDeathTest, ADamagedKernelCacheIsRebuilt) {
  const SharedFolder folder;
  const auto computes = [&](std::uint64_t compilations) {
    setenv("HEARTH_KERNEL_CACHE", folder.path().c_str(), 1);
    const bool right = (ones({3}).to(device) * 3.0 + 1.0).to(Device{}).to_vector<float>()[2] == 4.0f;
    leave(right && gpu::compiler_stats().compilations == compilations);
  };
  EXPECT_EXIT(computes(1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(computes(0), testing::ExitedWithCode(0), "");
  const gpu::KernelCache cache(folder.path());
  ASSERT_EQ(cache.files().size(), 1u);
  damage(cache.files()[0].path);
  EXPECT_TRUE(gpu::KernelCache::read_code(cache.files()[0].path).empty());
  EXPECT_EXIT(computes(1), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(gpu::KernelCache::read_code(cache.files()[0].path).empty());
}

TEST_F(GpuFaultDeathTest, ADamagedTuningFileIsRebuilt) {
  const SharedFolder folder;
  const auto path = folder.path() / "tuning.json";
  std::ofstream(path) << "{\"format\": 1, \"entries\": {\"matmul";
  EXPECT_EXIT(
      {
        Config configuration;
        configuration.enable_tuning = true;
        configuration.tuning_file = path.string();
        set_config(configuration);
        const Tensor x = ones({136, 128}).to(device);
        leave(matmul(x, x.t()).to(Device{}).to_vector<float>()[5] == 128.0f);
      },
      testing::ExitedWithCode(0), "");
  std::ifstream file(path);
  EXPECT_NO_THROW({
    const auto json = nlohmann::json::parse(file);
    EXPECT_FALSE(json.at("entries").empty());
  });
}

// Everywhere: what was asked for and is not there is an error, never the CPU.
TEST(Absent, IsAnError) {
  for (const DeviceKind kind : {DeviceKind::rocm, DeviceKind::cuda}) {
    const Device missing{kind, 200};
    EXPECT_THROW(ones({3}).to(missing), DeviceUnavailable);
    EXPECT_THROW(device_info(missing), DeviceUnavailable);
    EXPECT_THROW(set_default_device(missing), DeviceUnavailable);
    EXPECT_THROW(DeviceScope{missing}, DeviceUnavailable);
    EXPECT_THROW(device_from_name(to_string(missing)), DeviceUnavailable);
  }
  EXPECT_EQ(default_device(), Device{});
}

}  // namespace
}  // namespace hearth
