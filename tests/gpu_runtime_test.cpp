// The runtime of a GPU: memory, copies, streams, and how far the host runs ahead.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "gpu/event.h"
#include "gpu/in_flight.h"
#include "gpu/pinned_pool.h"
#include "gpu/staged_copy.h"
#include "gpu_compare.h"
#include "gpu_steps.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

class GpuRuntime : public GpuComparison {
 protected:
  void SetUp() override {
    GpuComparison::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    device = gpus()[0];
    synchronize(device);
    empty_cache(device);
    reset_peak_memory(device);
  }
  void TearDown() override { set_config(before_); }
  void configure(const std::function<void(Config&)>& change) const {
    Config config = before_;
    change(config);
    set_config(config);
  }
  MemoryStats stats() const { return memory_stats(device); }
  Tensor numbers(std::int64_t count, int from = 0) const {
    return arange(from, static_cast<double>(from + count), 1).eval();
  }

  Device device;

 private:
  Config before_ = config();
};

// ---- memory

TEST_F(GpuRuntime, StatisticsSayWhatMemoryIsFor) {
  const std::size_t loaded = stats().of(MemoryPurpose::loaded).allocated;
  const std::size_t results = stats().of(MemoryPurpose::results).allocated;
  const Tensor x = numbers(1 << 18).to(device);
  EXPECT_EQ(stats().of(MemoryPurpose::loaded).allocated, loaded + mib);
  const Tensor y = matmul(x.reshape({512, 512}) * 2.0, x.reshape({512, 512})).sum().eval();
  EXPECT_GT(stats().of(MemoryPurpose::results).allocated, results);
  EXPECT_EQ(stats().of(MemoryPurpose::arenas).allocated, 0u);
  EXPECT_GE(stats().of(MemoryPurpose::arenas).peak, mib);
  EXPECT_LE(stats().requested, stats().allocated);
  EXPECT_LT(stats().limit, device_info(device).total_memory);
}

TEST_F(GpuRuntime, AChangedConfigurationHoldsAtOnce) {
  configure([](Config& config) { config.max_memory_gb = 0.01; });
  EXPECT_LT(stats().limit, 11 * mib);
  EXPECT_THROW(zeros({16 << 20}, DType::u8).to(device), OutOfMemory);
  EXPECT_NO_THROW((numbers(1000).to(device) + 1.0).eval());
  configure([](Config& config) { config.enable_memory_pooling = false; });
  EXPECT_EQ(stats().reserved, stats().allocated);
}

TEST_F(GpuRuntime, WarmUpReservesWhatIsNeededLater) {
  warm_up(device, 32 * mib);
  const MemoryStats before = stats();
  EXPECT_GE(before.reserved, 32 * mib);
  EXPECT_GT(before.pinned_reserved, 0u);
  const Tensor x = numbers(1 << 20).to(device), y = (x * 2.0 + 1.0).eval();
  EXPECT_EQ(stats().reserved, before.reserved) << "the driver was asked";
  EXPECT_EQ(y.to(Device{}).to_vector<float>()[12345], 24691.0f);
  EXPECT_THROW(warm_up(device, std::size_t{1} << 60), OutOfMemory);
}

// ---- values of several devices

TEST_F(GpuRuntime, NumbersGoAnywhere) {
  const Tensor x = ones({4}).to(device);
  const Tensor two = full({}, 2.0).eval();  // in memory of the CPU
  EXPECT_EQ((x * two).to(Device{}).to_vector<float>()[3], 2.0f);
  auto compiled = compile([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * two}; });
  EXPECT_EQ(compiled({x})[0].to(Device{}).to_vector<float>()[3], 2.0f);
  Tensor(two).assign(full({}, 3.0));
  EXPECT_EQ(compiled({x})[0].to(Device{}).to_vector<float>()[3], 3.0f);
  EXPECT_EQ(compiled.traces(), 1u);
  const Tensor vector = ones({4});
  EXPECT_THROW(x * vector, DeviceError);
}

TEST_F(GpuRuntime, NumbersMadeForADeviceStayThere) {
  const Tensor x = full({}, 3.0).to(device), other = full({4}, 2.0).to(device);
  EXPECT_EQ((zeros_like(x) * 0.5).device(), device);
  EXPECT_EQ((ones_like(x).to(DType::f16) + 1).device(), device);
  Tensor w = x.detach();
  w.requires_grad_();
  const Tensor slope = gradients(sum(other * Tensor(other).requires_grad_()), {w})[0];  // none: zero
  EXPECT_EQ((w.detach() - 0.5 * slope).item(), 3);
}

TEST_F(GpuRuntime, ComparisonsThatNeedNoLookAreWhereTheirTensorIs) {
  const Tensor x = tensor<std::int8_t>({-100, 100}).to(device);
  EXPECT_EQ((x < 1000).device(), device);
  EXPECT_EQ(where(x < 1000, x, neg(x)).to(Device{}).to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{-100, 100}));
}

TEST_F(GpuRuntime, ACompiledFunctionKnowsItsDevice) {
  const Tensor weight = full({3}, 2.0).eval();
  auto twice = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + in[0]}; });
  auto weighted = compile([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * weight}; });
  const Tensor x = ones({3}), there = x.to(device);
  for (int i = 0; i < 3; ++i)
    for (const Tensor& argument : {x, there}) {
      const Tensor result = twice({argument})[0];
      EXPECT_EQ(result.device(), argument.device());
      EXPECT_EQ(result.to(Device{}).to_vector<float>()[2], 2.0f);
    }
  EXPECT_EQ(weighted({x})[0].to_vector<float>()[2], 2.0f);
  EXPECT_THROW(weighted({there}), DeviceError);
  Tensor(weight).assign(full({3}, 4.0).to(device));
  EXPECT_EQ(weighted({there})[0].to(Device{}).to_vector<float>()[2], 4.0f);
  EXPECT_THROW(weighted({x}), DeviceError);
}

TEST_F(GpuRuntime, OptimisersFollowTheirParameters) {
  for (const bool compiled : {false, true})
    for (const Device where : {Device{}, device}) {  // the default device is the CPU
      manual_seed(3);
      nn::Linear layer(4, 2);
      layer.to(where);
      optim::AdamW optimizer(layer.parameters(), {.learning_rate = 0.1});
      Scheduler schedule(optimizer, schedule::exponential(0.9));
      const Tensor x = ones({3, 4}).to(where);
      const auto step = [&](const std::vector<Tensor>& in) {
        optimizer.zero_grad();
        const Tensor loss = square(layer(in[0])).mean();
        loss.backward();
        optimizer.step();
        return std::vector<Tensor>{loss.detach()};
      };
      auto replayed = compile(step);
      double loss = 0;
      for (int i = 0; i < 5; ++i) {
        loss = (compiled ? replayed({x}) : step({x}))[0].item<double>();
        schedule.step();
      }
      static double expected = 0;  // that of the first
      if (!compiled && where == Device{}) expected = loss;
      EXPECT_NEAR(loss, expected, 1e-5) << to_string(where) << (compiled ? " compiled" : "");
    }
}

// ---- copies

TEST_F(GpuRuntime, CopiesOfAllSizesArrive) {
  configure([](Config& config) { config.pinned_pool_size_mb = 4; });  // one large block: pieces must wait
  for (const std::int64_t count : {0, 1, 16 << 10, (16 << 10) + 1, 1 << 20, (5 << 20) + 3}) {
    const Tensor x = numbers(count);
    EXPECT_EQ(x.to(device).to(Device{}).to_vector<float>(), x.to_vector<float>()) << count;
    EXPECT_LE(stats().pinned_reserved, 4 * mib);
  }
}

// Into memory that the copy engine reaches, and beyond its end, where it does not.
TEST_F(GpuRuntime, CopiesGoStraightToMemoryOfTheHost) {
  constexpr std::int64_t count = 3 << 20, part = 1 << 20;
  const Tensor x = numbers(count).to(device), end = numbers(part).to(device);
  eval({x, end});
  const std::vector<float> expected = numbers(count).to_vector<float>();
  const auto memory = host_memory(device, count * sizeof(float));
  const auto staged = [&](const Tensor& from, std::byte* to) {
    const MemoryStats before = stats();
    read_elements(from, {to, from.nbytes()});
    return stats().pinned_allocations - before.pinned_allocations;
  };
  EXPECT_EQ(staged(x, memory.get()), 0u);
  const auto* values = reinterpret_cast<const float*>(memory.get());
  EXPECT_EQ(std::vector<float>(values, values + count), expected);
  EXPECT_EQ(staged(end, memory.get() + (count - part) * sizeof(float)), 0u);
  EXPECT_EQ(values[count - 1], expected[part - 1]);
  EXPECT_EQ(values[count - part - 1], expected[count - part - 1]);
  std::vector<float> plain(count);
  EXPECT_GT(staged(x, reinterpret_cast<std::byte*>(plain.data())), 0u);
  EXPECT_EQ(plain, expected);
  EXPECT_NE(host_memory(Device{}, 16), nullptr);
  EXPECT_NO_THROW(host_memory(device, 0));
}

TEST_F(GpuRuntime, PinnedMemoryIsKept) {
  const Tensor x = numbers(100);
  const MemoryStats before = stats();
  for (int i = 0; i < 20; ++i) x.to(device).to(Device{});
  const MemoryStats after = stats();
  EXPECT_EQ(after.pinned_allocations - before.pinned_allocations, 40u);
  EXPECT_GE(after.pinned_hits - before.pinned_hits, 38u);  // one block there, one back
  EXPECT_LE(after.pinned_reserved, 2 * 64 * kib);
  synchronize(device);
  EXPECT_EQ(stats().pinned_allocated, 0u);
  empty_cache(device);
  EXPECT_EQ(stats().pinned_reserved, 0u);
}

TEST_F(GpuRuntime, ThreadsCopyThroughOneBlock) {
  configure([](Config& config) { config.pinned_pool_size_mb = 1; });  // less than one block
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 3; ++i) {
        const Tensor x = numbers((3 << 20) / 2, 100 * thread + i);  // two pieces
        const Tensor y = Transfer(x, device).get();
        right += x.to(device).to(Device{}).to_vector<float>() == x.to_vector<float>();
        right += y.to(Device{}).to_vector<float>() == x.to_vector<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 24);
}

TEST_F(GpuRuntime, Transfers) {
  for (const std::int64_t count : {0, 1, 1000, 3 << 20}) {
    const Tensor x = numbers(count);
    Transfer transfer(x, device);
    const Tensor y = transfer.get();
    EXPECT_EQ(y.device(), device);
    EXPECT_EQ((y * 2.0).to(Device{}).to_vector<float>(), (x * 2.0).to_vector<float>());
    EXPECT_TRUE(transfer.done());
    EXPECT_EQ(transfer.get().to(Device{}).to_vector<float>(), x.to_vector<float>());  // again
  }
  const Tensor matrix = numbers(35 * 17).reshape({35, 17});
  EXPECT_EQ(Transfer(matrix.transpose(0, 1), device).get().to(Device{}).to_vector<float>(),
            matrix.transpose(0, 1).to_vector<float>());
  const Tensor there = matrix.to(device);
  EXPECT_EQ(Transfer(there, device).get().to_vector<float>(), matrix.to_vector<float>());
  EXPECT_EQ(Transfer(there * 1.0, Device{}).get().to_vector<float>(), matrix.to_vector<float>());
  { const Transfer forgotten(matrix, device); }
}

// Memory of transfers is used again and again, while results computed from it are still on their way.
TEST_F(GpuRuntime, TransfersDoNotOvertakeTheirUsers) {
  constexpr int batches = 20;
  std::vector<Tensor> sums;
  for (int i = 0; i < batches; ++i) {
    Transfer transfer(full({20'000}, i), device);
    sums.push_back((transfer.get() * 2.0).eval());
  }
  for (int i = 0; i < batches; ++i) {
    const auto values = sums[static_cast<std::size_t>(i)].to(Device{}).to_vector<float>();
    ASSERT_TRUE(std::all_of(values.begin(), values.end(), [&](float value) {
      return value == 2.0f * static_cast<float>(i);
    })) << i;
  }
}

TEST_F(GpuRuntime, LoadersCopyAhead) {
  const auto images =
      std::make_shared<data::TensorDataset>(std::vector<Tensor>{randn({50, 3, 8}), arange(50)});
  const auto epoch = [&](int workers, std::optional<Device> where) {
    data::DataLoader loader(
        images, {.batch_size = 8, .shuffle = true, .workers = workers, .seed = 3, .device = where});
    std::vector<std::vector<double>> all;
    for (const data::Batch& batch : loader)
      for (const Tensor& field : batch) {
        EXPECT_EQ(field.device(), where.value_or(Device{}));
        all.push_back((field * 1.0).to(Device{}).to(DType::f64).to_vector<double>());
      }
    return all;
  };
  const auto expected = epoch(0, std::nullopt);
  EXPECT_EQ(expected.size(), 14u);
  for (const int workers : {0, 1, 3}) EXPECT_EQ(epoch(workers, device), expected) << workers;
  // Batches are made in host memory whatever the default device is.
  set_default_device(device);
  for (const int workers : {0, 2}) EXPECT_EQ(epoch(workers, std::nullopt), expected) << workers;
  set_default_device(Device{});
}

// ---- how far the host runs ahead

TEST_F(GpuRuntime, PlansInFlightAreBounded) {
  const Tensor x = numbers(32 * kib).to(device);  // 128 KiB
  const auto run = [&] {
    reset_peak_memory(device);
    const std::uint64_t waits = stats().in_flight_waits;
    std::vector<Tensor> results;
    for (int i = 0; i < 40; ++i) results.push_back((x * static_cast<double>(i)).eval());
    return stats().in_flight_waits - waits;
  };
  EXPECT_EQ(run(), 0u);  // far from the usual limit
  synchronize(device);
  EXPECT_EQ(stats().in_flight, 0u);
  configure([](Config& config) { config.max_in_flight_gb = 512.0 / (1 << 20); });  // 512 KiB: four of them
  run();
  EXPECT_LE(stats().in_flight_peak, 512 * kib);
  synchronize(device);
  configure([](Config& config) { config.max_in_flight_gb = 1e-9; });  // nothing fits: one behind another
  run();
  EXPECT_LE(stats().in_flight_peak, 256 * kib);
}

}  // namespace

namespace gpu {
namespace {

// A kernel in a stream that does not end before it is told to.
class Gate {
 public:
  Gate(GpuDevice& device, StreamHandle stream) : device_(device), stream_(stream) {
    void* memory = nullptr;
    device.use();
    device.check(device.driver().call.allocate_host(&memory, sizeof(int), 0),
                 "allocating memory of the host");
    open_ = static_cast<int*>(memory);
    *open_ = 0;
    const KernelSource source{"gate",
                              "#include \"gpu.h\"\n"
                              "KERNEL void gate(volatile i32* open) { while (*open == 0) {} }\n",
                              {}};
    void* argument = &open_;
    device.check(device.driver().call.launch(device.function(source, "gate").handle, 1, 1, 1, 1, 1, 1, 0,
                                             stream, &argument, nullptr),
                 "launching the gate");
  }
  ~Gate() {
    open();
    device_.poll([this] { return device_.driver().call.stream_query(stream_); });
    device_.driver().call.release_host(open_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const { std::atomic_ref(*open_).store(1); }

 private:
  GpuDevice& device_;
  StreamHandle stream_;
  int* open_ = nullptr;
};

bool becomes_true(const std::function<bool()>& condition, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!condition() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

class GpuStreams : public OnTestGpu {
 protected:
  static std::vector<float> read(const Buffer& buffer) {
    std::vector<float> values(buffer.bytes / sizeof(float));
    copy_to_host(*test_gpu(), values.data(), buffer.data, buffer.bytes);
    return values;
  }
  static std::unique_ptr<Upload> upload(const std::vector<float>& values) {
    return start_upload(*test_gpu(), values.data(), values.size() * sizeof(float));
  }
};

using std::chrono::milliseconds;

TEST_F(GpuStreams, UploadsRunBesideKernels) {
  GpuDevice& device = *test_gpu();
  std::vector<float> values(100'000), seen(values.size());
  std::iota(values.begin(), values.end(), 0.0f);
  const std::size_t bytes = values.size() * sizeof(float);
  const Gate gate(device, device.stream());
  const auto copy = upload(values);
  EXPECT_TRUE(becomes_true([&] { return copy->done(); }, milliseconds(5000)));
  const auto buffer = copy->finish();
  // It is there, though the kernel has not ended.
  const PinnedPool::Block block = device.pinned().take(bytes);
  device.check(device.driver().call.copy_to_host(block.data(), buffer->data, bytes, device.copy_stream()),
               "copying");
  block.used_in(device.copy_stream());
  EXPECT_TRUE(becomes_true([&] { return block.done(); }, milliseconds(5000)));
  std::memcpy(seen.data(), block.data(), bytes);
  EXPECT_EQ(seen, values);
  EXPECT_EQ(device.driver().call.stream_query(device.stream()), device.driver().codes.not_ready);
}

// Memory that a kernel still reads when it is given back must not be written before that kernel is done.
TEST_F(GpuStreams, UploadsWaitForTheLastUseOfTheirMemory) {
  GpuDevice& device = *test_gpu();
  const std::vector<float> first(50'000, 1.0f), second(50'000, 2.0f);
  const auto copied = device.pool().allocate(first.size() * sizeof(float));
  std::unique_ptr<Upload> next;
  void* place = nullptr;
  {
    auto buffer = upload(first)->finish();
    place = buffer->data;
    const Gate gate(device, device.stream());
    device.check(
        device.driver().call.copy_on_device(copied->data, buffer->data, buffer->bytes, device.stream()),
        "copying");
    buffer.reset();
    next = upload(second);
    EXPECT_FALSE(becomes_true([&] { return next->done(); }, milliseconds(100)));
  }
  const auto buffer = next->finish();
  EXPECT_EQ(buffer->data, place) << "other memory: nothing was tested";
  EXPECT_EQ(read(*copied), first);
  EXPECT_EQ(read(*buffer), second);
}

TEST_F(GpuStreams, WorkWaitsForTheUpload) {
  GpuDevice& device = *test_gpu();
  const std::vector<float> values(1000, 4.0f);
  const auto copied = device.pool().allocate(values.size() * sizeof(float));
  std::shared_ptr<Buffer> buffer;
  {
    const Gate gate(device, device.copy_stream());
    buffer = upload(values)->finish();
    device.check(
        device.driver().call.copy_on_device(copied->data, buffer->data, buffer->bytes, device.stream()),
        "copying");
    const auto idle = [&] { return device.driver().call.stream_query(device.stream()) == 0; };
    EXPECT_FALSE(becomes_true(idle, milliseconds(50)));
  }
  EXPECT_EQ(read(*copied), values);
}

TEST_F(GpuStreams, EventsSayWhatHasBeenReached) {
  GpuDevice& device = *test_gpu();
  const Event before(device), after(device);
  EXPECT_TRUE(before.reached());
  before.record(device.stream());
  {
    const Gate gate(device, device.stream());
    after.record(device.stream());
    EXPECT_TRUE(becomes_true([&] { return before.reached(); }, milliseconds(5000)));
    EXPECT_FALSE(after.reached());
  }
  after.wait();
  EXPECT_TRUE(after.reached());
}

TEST_F(GpuStreams, WhatIsInFlightIsBounded) {
  GpuDevice& device = *test_gpu();
  InFlight in_flight(device, device.stream());
  in_flight.set_limit(100);
  MemoryStats stats;
  in_flight.admit(1000);  // nothing before it
  in_flight.add_to(stats);
  EXPECT_EQ(stats.in_flight, 1000u);
  in_flight.finished(in_flight.position());
  std::atomic<bool> admitted = false;
  std::thread host;
  {
    const Gate gate(device, device.stream());
    in_flight.admit(60);
    in_flight.admit(40);
    host = std::thread([&] {
      in_flight.admit(1);
      admitted = true;
    });
    EXPECT_FALSE(becomes_true([&] { return admitted.load(); }, milliseconds(50)));
  }
  host.join();
  in_flight.add_to(stats);
  EXPECT_EQ(stats.in_flight, 1u);
  EXPECT_EQ(stats.in_flight_peak, 1000u);
  EXPECT_EQ(stats.in_flight_waits, 1u);
}

}  // namespace
}  // namespace gpu
TEST(Events, TellHowFarTheDeviceIs) {
  for (const Device device : devices()) {
    const Tensor x = ones({64, 64}).to(device).eval();
    matmul(x, x).eval();  // the kernel is there
    synchronize(device);
    Event begin(device);
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = matmul(y, x) * 0.01;
    y.eval();
    Event end(device);
    end.wait();
    EXPECT_TRUE(begin.reached());
    EXPECT_TRUE(end.reached());
    EXPECT_GT(end.seconds_since(begin), 0);
    EXPECT_LE(begin.seconds_since(end), 0);
    EXPECT_NEAR(end.seconds_since(begin), -begin.seconds_since(end), 1e-6);
    begin = std::move(end);
    EXPECT_TRUE(begin.reached());
    if (device.kind == DeviceKind::cpu) continue;
    EXPECT_THROW(begin.seconds_since(Event(Device{})), ValueError);
  }
}

}  // namespace hearth
