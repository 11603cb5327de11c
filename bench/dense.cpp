// Matrix products and convolutions, against OpenBLAS called directly.
#include <cblas.h>
#include <fmt/format.h>

#include "base/thread_pool.h"
#include "bench.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/random.h"

extern "C" void openblas_set_num_threads(int);

namespace hearth::bench {

void dense(Report& report, const Options& options) {
  const double seconds = options.quick ? 0.5 : 2.0;
  double matmul_rate = 0;
  for (std::int64_t n : {1024, 2048}) {
    const Tensor a = randn({n, n}).eval(), b = randn({n, n}).eval();
    std::vector<float> c(static_cast<std::size_t>(n * n));
    const int size = static_cast<int>(n);
    const float *pa = a.data<float>().data(), *pb = b.data<float>().data();
    const auto blas = [&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, pa, size, pb, size, 0,
                  c.data(), size);
    };
    // Hearth calls the library with one thread, from its own; alone it may use its own.
    int library_threads = 1;
    const auto with_threads = [&](int count) {
      if (library_threads != count) openblas_set_num_threads(library_threads = count);
    };
    const auto direct = [&] {
      with_threads(thread_count());
      blas();
    };
    const auto ours = [&] {
      with_threads(1);
      matmul(a, b).eval();
    };
    const auto times = medians_apart({direct, ours}, seconds);
    with_threads(1);
    const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    matmul_rate = operations / times[1];
    report.add({"dense", fmt::format("matmul {} f32", n), matmul_rate * 1e-9, "GFLOP/s", times[0] / times[1],
                "OpenBLAS", 0.95});
  }

  struct Conv {
    std::int64_t batch, channels, out, size, kernel, stride;
  };
  const Tensor a = randn({1024, 1024}).eval(), b = randn({1024, 1024}).eval();
  for (const Conv& c :
       {Conv{8, 64, 64, 56, 3, 1}, Conv{8, 128, 128, 28, 3, 1}, Conv{8, 256, 256, 14, 3, 1},
        Conv{8, 512, 512, 7, 3, 1}, Conv{8, 64, 256, 56, 1, 1}, Conv{8, 256, 64, 56, 1, 1},
        Conv{8, 512, 128, 28, 1, 1}, Conv{8, 1024, 256, 14, 1, 1}, Conv{8, 128, 128, 56, 3, 2}}) {
    const Tensor x = randn({c.batch, c.channels, c.size, c.size}).eval();
    const Tensor w = randn({c.out, c.channels, c.kernel, c.kernel}).eval();
    ConvOptions geometry;
    geometry.stride = {c.stride};
    geometry.padding = {c.kernel / 2};
    const Shape shape = conv2d(x, w, {}, geometry).shape();
    const auto times =
        medians({[&] { matmul(a, b).eval(); }, [&] { conv2d(x, w, {}, geometry).eval(); }}, seconds / 2);
    const double operations =
        2.0 * static_cast<double>(element_count(shape) * c.channels * c.kernel * c.kernel);
    const double rate = operations / times[1], yardstick = 2.0 * 1024 * 1024 * 1024 / times[0];
    report.add({"dense",
                fmt::format("conv2d {0}x{0}{1}, {2} -> {3}, {4}x{4}", c.kernel,
                            c.stride > 1 ? " stride 2" : "", c.channels, c.out, c.size),
                rate * 1e-9, "GFLOP/s", rate / yardstick, "matmul 1024", 0.6});
  }
}

}  // namespace hearth::bench
