// GPUs that are not there: plans run on them without a driver or a compiler, and the kernels they would need
// are those that a real one compiles.
#include "gpu/absent_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/backend.h"
#include "gpu/backends.h"
#include "gpu/compiler.h"
#include "gpu/kernels.h"
#include "gpu/launch_recorder.h"
#include "hearth/hearth.h"
#include "tensor/key_value_cache.h"

namespace hearth::gpu {
namespace {

// Makes a device of this architecture the default one.
class Absent {
 public:
  explicit Absent(const std::string& architecture) : before_(default_device()) {
    static std::uint8_t next = 200;
    device_ = {target_of(architecture).amd ? DeviceKind::rocm : DeviceKind::cuda, next++};
    auto gpu = std::make_unique<AbsentDevice>(architecture, device_);
    gpu_ = gpu.get();
    add_backend(device_, make_backend(std::move(gpu)));
    set_default_device(device_);
  }
  ~Absent() { set_default_device(before_); }
  Absent(const Absent&) = delete;
  Absent& operator=(const Absent&) = delete;
  Device device() const { return device_; }
  AbsentDevice& gpu() const { return *gpu_; }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const NotedKernel& kernel : gpu_->kernels()) names.insert(kernel.name);
    return names;
  }

 private:
  Device before_, device_;
  AbsentDevice* gpu_;
};

Tensor given(const Shape& shape, DType dtype = DType::f32) {
  Tensor x = zeros(shape, dtype);
  x.eval();
  return x;
}

TEST(AbsentDevice, AnOldRocmIsNotAskedForChipsItDoesNotKnow) {
  constexpr int debian_12 = 50'221'153, later = 50'400'000;
  for (const char* chip : {"gfx1100", "gfx1201", "gfx942", "gfx9999"}) {
    EXPECT_FALSE(gpu::rocm_may_compile(debian_12, chip)) << chip;
    EXPECT_TRUE(gpu::rocm_may_compile(later, chip)) << chip;
  }
  for (const char* chip : {"gfx90a", "gfx90a:sramecc+:xnack-", "gfx1030", "gfx906"})
    EXPECT_TRUE(gpu::rocm_may_compile(debian_12, chip)) << chip;
}

TEST(AbsentDevice, PlansRunAndNothingIsCompiled) {
  const auto before = compiler_stats();
  for (const char* architecture : {"gfx1100", "gfx942", "sm_90"}) {
    const Absent absent(architecture);
    EXPECT_EQ(absent.gpu().target().architecture, architecture);
    EXPECT_EQ(absent.gpu().wave_size(), target_of(architecture).wave_size);
    Tensor x = given({64, 128}), weight = given({10, 128});
    weight.requires_grad_();
    const Tensor loss = cross_entropy(linear(relu(x), weight), given({64}, DType::i64));
    loss.backward();
    eval({loss, weight.grad()});
    EXPECT_EQ(loss.item<float>(), 0.0f);  // what is read from it is zeros
    const auto names = absent.names();
    EXPECT_TRUE(names.contains("matmul") && names.contains("elementwise")) << architecture;
    for (const NotedKernel& kernel : absent.gpu().kernels()) {
      EXPECT_GT(kernel.threads, 0u) << kernel.name;
      EXPECT_NE(kernel.source.text.find(" " + kernel.name + "("), std::string::npos) << kernel.source.text;
    }
  }
  EXPECT_EQ(compiler_stats().compilations, before.compilations);
}

TEST(AbsentDevice, WeightsAreConvertedBesideProductsWhereThereIsACopyEngine) {
  for (const char* architecture : {"gfx942", "sm_90"}) {
    const Absent absent(architecture);
    constexpr std::int64_t rows = 2048, size = 1024;
    const auto weights = [] {
      Tensor made = quantise(given({size, size}), DType::q4_k);
      made.eval();
      return made;
    };
    Tensor x = given({rows, size});
    for (const Tensor& one : {weights(), weights(), weights()}) x = silu(quantised_matmul(x, one));
    const bool converts = explain({x}).find("conversion: 2 matrices") != std::string::npos;
    EXPECT_EQ(converts, std::string(architecture) == "sm_90") << explain({x});
    x.eval();
    const auto kernels = absent.gpu().kernels();
    const auto beside = std::count_if(kernels.begin(), kernels.end(), [](const NotedKernel& kernel) {
      return kernel.source.text.find("ConvertBeside<quantised::q4_k, bf16>") != std::string::npos;
    });
    EXPECT_EQ(beside, converts ? 1 : 0);  // two products, one text
  }
}

// Numbers of two layers at once are more than of one.
TEST(AbsentDevice, WeightsAreNotConvertedAheadWhereMemoryIsShort) {
  const Absent absent("sm_90");
  const Config before = config();
  Tensor x = given({1100, 1024});
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor weights = quantise(given({1024, 1024}), DType::q8_0);
    weights.eval();
    x = silu(quantised_matmul(x, weights));
  }
  const auto converts = [&](double gigabytes) {
    Config limited = before;
    limited.max_memory_gb = gigabytes;
    set_config(limited);
    return explain({x}).find("conversion: 1 matrices") != std::string::npos;
  };
  EXPECT_FALSE(converts(0.05));
  EXPECT_TRUE(converts(0.5));
  EXPECT_TRUE(converts(0));  // no limit
  set_config(before);
}

// By the step before, where kernels start early; not of several rows, nor where x is not f32, nor where runs
// of results would leave blocks without work.
TEST(AbsentDevice, ARowIsRoundedAhead) {
  const auto rounds = [](const char* architecture, std::int64_t rows, std::int64_t size, DType dtype) {
    const Absent absent(architecture);
    const Tensor first = quantise(given({size, size}), DType::q4_k),
                 second = quantise(given({size, size}), DType::q4_0);
    eval({first, second});
    const Tensor norm = given({size});
    norm.eval();
    const Tensor x = given({rows, size}, dtype);
    const Tensor y = quantised_matmul(rms_norm(quantised_matmul(x, first), norm.to(dtype), 1e-5), second);
    const bool found = explain({y}).find("rounding ahead: 1 operands") != std::string::npos;
    y.eval();
    const auto kernels = absent.gpu().kernels();
    const auto has = [&](const char* text) {
      return std::any_of(kernels.begin(), kernels.end(), [&](const NotedKernel& kernel) {
        return kernel.source.text.find(text) != std::string::npos;
      });
    };
    EXPECT_EQ(has("rounded::give<"), found);
    EXPECT_EQ(has("streamed::take_rows<quantised::q4_0"), found);
    return found;
  };
  EXPECT_TRUE(rounds("sm_90", 1, 4096, DType::f32));
  EXPECT_FALSE(rounds("sm_90", 4, 4096, DType::f32));
  EXPECT_FALSE(rounds("sm_90", 1, 2048, DType::f32));
  EXPECT_FALSE(rounds("sm_90", 1, 4096, DType::bf16));
  EXPECT_FALSE(rounds("sm_80", 1, 4096, DType::f32));
  EXPECT_FALSE(rounds("gfx1100", 1, 4096, DType::f32));
}

// A norm's weights are those of columns, which a row that is made of several does not tell apart.
TEST(AbsentDevice, ANormOfRowsThatAreJoinedIsNotRoundedAhead) {
  const Absent absent("sm_90");
  constexpr std::int64_t size = 4096;
  const Tensor first = quantise(given({size, size}), DType::q4_0),
               second = quantise(given({size, 2 * size}), DType::q4_0);
  const Tensor norm = given({2 * size}), rows = given({2, size});
  eval({first, second, norm, rows});
  const Tensor joined = reshape(quantised_matmul(rows, first), {1, 2 * size});
  const auto rounds = [&](const Tensor& x) {
    return explain({quantised_matmul(x, second)}).find("rounding ahead: 1 operands") != std::string::npos;
  };
  EXPECT_TRUE(rounds(joined));
  EXPECT_FALSE(rounds(rms_norm(joined, norm, 1e-5)));
}

// Attention may read old keys when the kernel before it has begun: then these have been copied.
TEST(AbsentDevice, ACacheIsCopiedBeforeTheNextKernelBegins) {
  struct Launch final : Kernel {
    void run(const KernelArguments&) const override {
      Arguments none;
      LaunchRecorder::current()->add({.starts_early = true}, {}, none);
    }
  };
  const Launch launch;
  LaunchRecorder recorder;
  launch.run({});
  copy_cache(launch, nullptr, nullptr);
  launch.run({});
  launch.run({});
  const auto launches = recorder.take();
  ASSERT_EQ(launches.size(), 4u);
  EXPECT_TRUE(launches[1].starts_early);
  EXPECT_FALSE(launches[2].starts_early);
  EXPECT_TRUE(launches[3].starts_early);
}

// Before it waits for the kernel in front, attention looks at where it is, unless a kernel before it may have
// written that: what goes on to the next place behind it does not count.
TEST(AbsentDevice, PositionsAreReadEarlyUntilAStepWritesThem) {
  enum class Written { after, before, there };
  const auto reads_early = [](Written when) {
    const Absent absent("sm_90");
    const Tensor q = given({1, 8, 64}), keys = given({64, 2, 64}, DType::f16);
    const Tensor sequences = given({1}, DType::i64), table = given({1, 4}, DType::i64);
    Tensor positions = given({1}, DType::i64);
    Compiled step([&](const std::vector<Tensor>&) {
      const Tensor old = positions, next = old + 1;
      // Behind the step that makes the next ones, where it has to be.
      const Tensor turned = when == Written::after ? q * 2 : q * reshape(next.to(DType::f32), {1, 1, 1});
      const Tensor seen = cached_attention(turned, keys, keys, sequences, when == Written::there ? next : old,
                                           table, {.scale = 1, .page = 16});
      positions.assign(next);
      return std::vector<Tensor>{seen};
    });
    step({});
    for (const NotedKernel& kernel : absent.gpu().kernels())
      if (kernel.name == "cached_attention")
        return kernel.source.text.find("[] { after_previous(); }") != std::string::npos;
    ADD_FAILURE() << "no kernel of attention";
    return false;
  };
  EXPECT_TRUE(reads_early(Written::after));
  EXPECT_FALSE(reads_early(Written::before));
  EXPECT_FALSE(reads_early(Written::there));
}

TEST(AbsentDevice, AKernelIsNotedOnceWithItsLargestLaunch) {
  const Absent absent("gfx1100");
  const Tensor q = given({1, 4, 64, 64}, DType::f16), k = given({1, 4, 64, 64}, DType::f16);
  for (int i = 0; i < 3; ++i) attention(q, k, k).eval();  // the third time from a replay
  const auto kernels = absent.gpu().kernels();
  const auto is_attention = [](const NotedKernel& kernel) { return kernel.source.name == "attention"; };
  ASSERT_EQ(std::count_if(kernels.begin(), kernels.end(), is_attention), 1);
  const NotedKernel& forward = *std::find_if(kernels.begin(), kernels.end(), is_attention);
  EXPECT_GT(forward.shared, 0u);
  EXPECT_EQ(forward.threads % 32, 0u);
}

TEST(AbsentDevice, MemoryIsAddresses) {
  const Absent absent("gfx942");
  Backend& owner = backend(absent.device());
  constexpr std::size_t bytes = std::size_t{1} << 30;
  const auto allocate = [&](std::size_t size) { return owner.allocate(size, MemoryPurpose::results); };
  const auto a = allocate(bytes), b = allocate(bytes), c = allocate(3);
  const auto address = [](const auto& buffer) { return reinterpret_cast<std::uintptr_t>(buffer->data); };
  for (const auto& buffer : {a, b, c}) EXPECT_EQ(address(buffer) % 256, 0u);
  EXPECT_GE(address(b), address(a) + bytes);
  EXPECT_GE(address(c), address(b) + bytes);
  EXPECT_GE(owner.memory_stats().allocated, 2 * bytes);
  int value = 7;
  owner.copy_from_host(*a, 0, &value, sizeof value);
  owner.copy_to_host(&value, *a, bytes - sizeof value, sizeof value);
  EXPECT_EQ(value, 0);
  owner.synchronize();
}

TEST(AbsentDevice, IsNotAmongTheDevices) {
  const Absent absent("gfx1201");
  for (const Device device : devices()) EXPECT_FALSE(device == absent.device());
  const DeviceInfo info = device_info(absent.device());
  EXPECT_EQ(info.architecture, "gfx1201");
  EXPECT_EQ(info.wave_size, 32);
  EXPECT_THROW(
      add_backend(absent.device(), make_backend(std::make_unique<AbsentDevice>("gfx1201", absent.device()))),
      ValueError);
  EXPECT_THROW(
      add_backend(Device{}, make_backend(std::make_unique<AbsentDevice>("gfx1201", absent.device()))),
      ValueError);
}

void typical_work(const Tensor& x, const Tensor& y) {
  (x + y).eval();
  (silu(x) * y).eval();
  softmax(x).eval();
  sum(x, {1}).eval();
  x.to(DType::f16).eval();
}

// What is compiled for an absent GPU is what a program then asks for on a real one.
TEST(AbsentDevice, ProgramsFindTheirKernels) {
  bool any = false;
  for (const Device device : devices()) {
    if (device.kind == DeviceKind::cpu) continue;
    any = true;
    const Shape shape{128, 512};
    const std::string architecture = device_info(device).architecture;
    {
      const Absent absent(architecture);
      typical_work(given(shape), given(shape));
      for (const NotedKernel& kernel : absent.gpu().kernels())
        compile(driver_of(device.kind), architecture, absent.gpu().wave_size(), kernel.source);
    }
    const Tensor x = full(shape, 2.0).to(device), y = full(shape, 3.0).to(device);
    const auto started = compiler_stats().compilations;
    typical_work(x, y);
    EXPECT_EQ(compiler_stats().compilations, started);
  }
  if (!any) GTEST_SKIP() << "no GPU";
}

}  // namespace
}  // namespace hearth::gpu
