// Times matrix products on a GPU, every variant that fits, and checks some elements of each result.
//
//   gpu-gemm-bench [--dtype bf16|f16|f32|f64|i8] [--layout kk|kr|rk|rr] [--shape MxNxK] [--variant NAME]
//   [--device N]
//
// A layout names for each operand whether it runs along K (k) or along rows of the product (r). Without
// options: the standard list. Prints a line per measurement; exits with 1 if a result is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/matmul.h"
#include "hearth/error.h"

namespace {

using namespace hearth;
using namespace hearth::gpu;

struct Size {
  std::int64_t m, n, k;
};

struct Named {
  const char* name;
  MatmulVariant variant;
};
constexpr Named variants[] = {
    {"automatic", MatmulVariant::automatic}, {"fma_small", MatmulVariant::fma_small},
    {"fma_large", MatmulVariant::fma_large}, {"mma_small", MatmulVariant::mma_small},
    {"mma_large", MatmulVariant::mma_large}, {"wgmma_128", MatmulVariant::wgmma_128},
    {"wgmma_192", MatmulVariant::wgmma_192}, {"wgmma_256", MatmulVariant::wgmma_256},
    {"skinny", MatmulVariant::skinny}};

// Values between -1 and 1 that every 16-bit float holds: multiples of 1/64. Integers: -8 to 8.
std::vector<float> random_values(std::int64_t count, bool integers, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = integers ? static_cast<float>(static_cast<int>(state >> 24) % 17 - 8)
                     : static_cast<float>(static_cast<int>(state >> 25) - 64) / 64.0f;
  }
  return values;
}

void put(std::vector<char>& bytes, std::size_t i, float value, DType dtype) {
  const std::size_t size = dtype_size(dtype);
  const auto as = [&](auto typed) { std::memcpy(bytes.data() + i * size, &typed, size); };
  switch (dtype) {
    case DType::f64:
      return as(static_cast<double>(value));
    case DType::f32:
      return as(value);
    case DType::i8:
      return as(static_cast<std::int8_t>(value));
    case DType::bf16:
      return as(bfloat16(value));
    default:
      return as(float16(value));
  }
}

double get(const std::vector<char>& bytes, std::size_t i, DType dtype) {
  const char* at = bytes.data() + i * dtype_size(dtype);
  const auto as = [&](auto typed) {
    std::memcpy(&typed, at, sizeof typed);
    return typed;
  };
  switch (dtype) {
    case DType::f64:
      return as(double{});
    case DType::f32:
      return as(float{});
    case DType::i8:
      return as(std::int8_t{});
    case DType::bf16:
      return static_cast<double>(static_cast<float>(as(bfloat16{})));
    default:
      return static_cast<double>(static_cast<float>(as(float16{})));
  }
}

class Bench {
 public:
  Bench(GpuDevice& gpu, DType dtype, Size size, const std::string& layout)
      : gpu_(gpu), dtype_(dtype), size_(size), layout_(layout) {
    a_values_ = random_values(size.m * size.k, dtype == DType::i8, 1);
    b_values_ = random_values(size.n * size.k, dtype == DType::i8, 2);
    a_ = upload(a_values_, size.m, layout[0] == 'k');
    b_ = upload(b_values_, size.n, layout[1] == 'k');
    out_ = gpu.pool().allocate(static_cast<std::size_t>(size.m * size.n) * dtype_size(dtype));
    step_.op = Op::matmul;
    step_.domain = {size.m, size.n};
    step_.inputs = {{dtype, {size.m, size.k}, layout[0] == 'k' ? Strides{size.k, 1} : Strides{1, size.m}},
                    {dtype, {size.k, size.n}, layout[1] == 'k' ? Strides{1, size.k} : Strides{size.n, 1}}};
    step_.outputs = {{dtype, {size.m, size.n}, {size.n, 1}}};
  }

  // Prints one line; false if a result is wrong.
  bool run(const Named& named) {
    std::unique_ptr<Kernel> kernel;
    try {
      kernel = make_matmul(gpu_, step_, named.variant);
    } catch (const KernelError&) {
      return true;  // does not fit
    }
    const auto scratch = gpu_.pool().allocate(kernel->scratch_bytes());
    void* inputs[] = {a_->data, b_->data};
    void* output = out_->data;
    const KernelArguments arguments{inputs, &output, nullptr, scratch->data};
    const DriverTable& call = gpu_.driver().call;
    const auto check = [&](int code) { gpu_.driver().check(code, "timing"); };
    check(call.fill_bytes(output, 0xff, static_cast<std::size_t>(size_.m * size_.n) * dtype_size(dtype_),
                          gpu_.stream()));
    kernel->run(arguments);
    gpu_.synchronize();
    const double error = largest_error();
    EventHandle begin = nullptr, end = nullptr;
    check(call.event_create(&begin, 0));
    check(call.event_create(&end, 0));
    const double operations =
        2.0 * static_cast<double>(size_.m) * static_cast<double>(size_.n) * static_cast<double>(size_.k);
    const int repeats = static_cast<int>(std::clamp(2e13 / operations, 5.0, 200.0));
    float best = 1e30f;
    for (int round = 0; round < 3; ++round) {
      check(call.event_record(begin, gpu_.stream()));
      for (int i = 0; i < repeats; ++i) kernel->run(arguments);
      check(call.event_record(end, gpu_.stream()));
      check(call.stream_synchronize(gpu_.stream()));
      float milliseconds = 0;
      check(call.event_elapsed(&milliseconds, begin, end));
      best = std::min(best, milliseconds / static_cast<float>(repeats));
    }
    call.event_destroy(begin);
    call.event_destroy(end);
    const bool right = error <= tolerance();
    fmt::print("{:5} {} {:6}x{:6}x{:6} {:10} {:10.4f} ms {:8.1f} TFLOP/s {:8.1f} GB/s  error {:.2e} {}\n",
               dtype_name(dtype_), layout_, size_.m, size_.n, size_.k, named.name, best,
               operations / (static_cast<double>(best) * 1e9), bytes() / (static_cast<double>(best) * 1e6),
               error, right ? "" : "WRONG");
    std::fflush(stdout);
    return right;
  }

 private:
  std::shared_ptr<Buffer> upload(const std::vector<float>& values, std::int64_t rows, bool along_k) {
    std::vector<char> bytes(values.size() * dtype_size(dtype_));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < size_.k; ++k)
        put(bytes, static_cast<std::size_t>(along_k ? r * size_.k + k : k * rows + r),
            values[static_cast<std::size_t>(r * size_.k + k)], dtype_);
    auto buffer = gpu_.pool().allocate(bytes.size());
    gpu_.use();
    gpu_.driver().check(
        gpu_.driver().call.copy_to_device(buffer->data, bytes.data(), bytes.size(), gpu_.stream()),
        "copying");
    gpu_.synchronize();
    return buffer;
  }

  double bytes() const {
    return static_cast<double>(size_.m * size_.k + size_.n * size_.k + size_.m * size_.n) *
           static_cast<double>(dtype_size(dtype_));
  }
  double tolerance() const {
    switch (dtype_) {
      case DType::bf16:
        return 5e-3;
      case DType::f16:
        return 1e-3;
      case DType::f32:
        return 1e-5;
      default:
        return 1e-12;
    }
  }

  // Of elements spread over the result, relative to the size of its sums.
  double largest_error() {
    std::vector<char> result(static_cast<std::size_t>(size_.m * size_.n) * dtype_size(dtype_));
    gpu_.driver().check(
        gpu_.driver().call.copy_to_host(result.data(), out_->data, result.size(), gpu_.stream()), "copying");
    gpu_.synchronize();
    std::mt19937_64 engine(7);
    double worst = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto r = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(size_.m));
      const auto c = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(size_.n));
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < size_.k; ++k) {
        const double term = static_cast<double>(a_values_[static_cast<std::size_t>(r * size_.k + k)]) *
                            static_cast<double>(b_values_[static_cast<std::size_t>(c * size_.k + k)]);
        sum += term;
        magnitude += term * term;
      }
      if (dtype_ == DType::i8) sum = static_cast<std::int8_t>(static_cast<std::int64_t>(sum));
      const double got = get(result, static_cast<std::size_t>(r * size_.n + c), dtype_);
      const double error = std::abs(got - sum) / std::max(std::sqrt(magnitude), std::abs(sum));
      worst = std::isnan(got) ? 1e30 : std::max(worst, std::isnan(error) ? 0.0 : error);
      if (worst > 1e29) break;
    }
    return worst;
  }

  GpuDevice& gpu_;
  DType dtype_;
  Size size_;
  std::string layout_;
  std::vector<float> a_values_, b_values_;
  std::shared_ptr<Buffer> a_, b_, out_;
  Step step_;
};

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64, DType::i8})
    if (name == dtype_name(dtype)) return dtype;
  fmt::print(stderr, "no dtype {}\n", name);
  std::exit(2);
}

}  // namespace

int main(int count, char** words) {
  std::string dtype, layout, shape, variant;
  int index = 0;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = words[i], value = words[i + 1];
    if (option == "--dtype") dtype = value;
    if (option == "--layout") layout = value;
    if (option == "--shape") shape = value;
    if (option == "--variant") variant = value;
    if (option == "--device") index = std::atoi(value.c_str());
  }
  const bool cuda = cuda_driver().usable();
  const Driver& driver = cuda ? cuda_driver() : hip_driver();
  if (!driver.usable()) {
    fmt::print(stderr, "no GPU: {}; {}\n", cuda_driver().unavailable, hip_driver().unavailable);
    return 2;
  }
  GpuDevice gpu(driver, index,
                {cuda ? DeviceKind::cuda : DeviceKind::rocm, static_cast<std::uint8_t>(index)});
  fmt::print("{} ({}), {} compute units\n", gpu.name(), gpu.architecture(), gpu.compute_units());

  bool right = true;
  const auto measure = [&](const std::string& type, const std::string& lay, Size size) {
    Bench bench(gpu, dtype_named(type), size, lay);
    for (const Named& named : variants) {
      if (!variant.empty() && variant != named.name) continue;
      // Per-thread arithmetic on 16-bit floats is only of interest without a matrix unit.
      const bool fma = named.variant == MatmulVariant::fma_small || named.variant == MatmulVariant::fma_large;
      if (variant.empty() && fma && type != "f32" && type != "f64") continue;
      right &= bench.run(named);
    }
  };
  if (!shape.empty() || !dtype.empty() || !layout.empty()) {
    Size size{4096, 4096, 4096};
    long long m = 0, n = 0, k = 0;
    if (std::sscanf(shape.c_str(), "%lldx%lldx%lld", &m, &n, &k) == 3) size = {m, n, k};
    measure(dtype.empty() ? "bf16" : dtype, layout.empty() ? "kk" : layout, size);
    return right ? 0 : 1;
  }
  for (const char* lay : {"kk", "kr", "rk", "rr"}) measure("bf16", lay, {4096, 4096, 4096});
  measure("f16", "kk", {4096, 4096, 4096});
  measure("bf16", "kk", {8192, 8192, 8192});
  measure("bf16", "kk", {1024, 1024, 1024});
  measure("bf16", "kk", {2048, 2048, 2048});
  measure("bf16", "kk", {1000, 1032, 1016});  // parts of tiles
  measure("bf16", "kk", {512, 4096, 14336});
  measure("bf16", "kk", {64, 4096, 4096});
  measure("bf16", "kk", {1, 4096, 4096});
  measure("bf16", "kr", {1, 4096, 4096});
  measure("bf16", "kk", {8, 14336, 4096});
  measure("f32", "kk", {4096, 4096, 4096});
  measure("f32", "kr", {4096, 4096, 4096});
  measure("f32", "kk", {1, 8192, 8192});
  measure("f64", "kk", {2048, 2048, 2048});
  measure("i8", "kk", {4096, 4096, 4096});
  return right ? 0 : 1;
}
