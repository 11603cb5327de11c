// A stand-in for libMIOpen: its ABI, for f32 and bf16. $FAKE_MIOPEN says how it behaves: "wrong" (results),
// "failing", "greedy" (it wants more workspace than it said), or well.
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "device_memory.h"

// For tests: convolutions that were asked for, and searches.
extern "C" int fake_miopen_runs, fake_miopen_searches;
int fake_miopen_runs = 0, fake_miopen_searches = 0;

namespace {

struct Tensor {
  int type = -1;
  std::vector<int> sizes;
};
struct Convolution {
  std::vector<int> padding, stride, dilation;
  int groups = 1, find_mode = 5, f16_as_bf16 = -1;
  bool deterministic = false;
};
struct Solution {
  float milliseconds;
  std::size_t workspace;
  std::uint64_t id;
  int algorithm;
};
struct FoundAlgorithm {
  int algorithm;
  float milliseconds;
  std::size_t workspace;
};
struct Handle {
  void* stream;
  std::set<std::uint64_t> compiled;
};

constexpr int bad_parameter = 3, internal_error = 5, not_implemented = 6, type_f32 = 1, type_bf16 = 5;
constexpr std::uint64_t with_workspace = 85, without_workspace = 91, too_large = 7;
constexpr std::size_t workspace_bytes = 4096;

bool behaves(const char* how) {
  const char* conduct = std::getenv("FAKE_MIOPEN");
  return conduct != nullptr && std::string(conduct) == how;
}

// Elements of x (or dx), w (or dw) and y (or dy) that meet, all of them: visit(x, w, y) gets their indices.
template <class Visit>
int walk(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c, const Visit& visit) {
  const std::size_t axes = c.padding.size();
  if (x.sizes.size() != axes + 2 || w.sizes.size() != axes + 2 || y.sizes.size() != axes + 2 ||
      !c.deterministic || c.f16_as_bf16 != 0 || x.sizes[1] != w.sizes[1] * c.groups ||
      y.sizes[1] != w.sizes[0] || x.sizes[0] != y.sizes[0] || x.type != w.type || y.type != w.type)
    return bad_parameter;
  for (std::size_t i = 0; i < axes; ++i)
    if (y.sizes[i + 2] !=
        (x.sizes[i + 2] + 2 * c.padding[i] - c.dilation[i] * (w.sizes[i + 2] - 1) - 1) / c.stride[i] + 1)
      return bad_parameter;
  const auto three = [axes](const std::vector<int>& values, std::size_t skip, int missing) {
    std::vector<int> result(3 - axes, missing);
    result.insert(result.end(), values.begin() + static_cast<std::ptrdiff_t>(skip), values.end());
    return result;
  };
  const auto xs = three(x.sizes, 2, 1), ws = three(w.sizes, 2, 1), ys = three(y.sizes, 2, 1);
  const auto stride = three(c.stride, 0, 1), padding = three(c.padding, 0, 0),
             dilation = three(c.dilation, 0, 1);
  const auto volume = [](const std::vector<int>& sizes) {
    return std::int64_t{sizes[0]} * sizes[1] * sizes[2];
  };
  const int channels = w.sizes[1], results = w.sizes[0] / c.groups;
  for (int n = 0; n < y.sizes[0]; ++n)
    for (int o = 0; o < y.sizes[1]; ++o)
      for (int p = 0; p < volume(ys); ++p)
        for (int channel = 0; channel < channels; ++channel)
          for (int tap = 0; tap < volume(ws); ++tap) {
            const int pixel[] = {p / ys[2] / ys[1], p / ys[2] % ys[1], p % ys[2]};
            const int taps[] = {tap / ws[2] / ws[1], tap / ws[2] % ws[1], tap % ws[2]};
            std::int64_t place = 0;
            bool inside = true;
            for (std::size_t i = 0; i < 3; ++i) {
              const int at = pixel[i] * stride[i] - padding[i] + taps[i] * dilation[i];
              inside = inside && at >= 0 && at < xs[i];
              place = place * xs[i] + at;
            }
            if (!inside) continue;
            const std::int64_t image = std::int64_t{n} * x.sizes[1] + o / results * channels + channel;
            visit(image * volume(xs) + place, (std::int64_t{o} * channels + channel) * volume(ws) + tap,
                  (std::int64_t{n} * y.sizes[1] + o) * volume(ys) + p);
          }
  return 0;
}

std::int64_t count(const Tensor& tensor) {
  std::int64_t product = 1;
  for (const int size : tensor.sizes) product *= size;
  return product;
}

enum Place { x_place, w_place, y_place };  // of a tensor in walk's order

struct Operand {
  void* shape;
  const void* data;
  Place place;
};

// What was found by a search comes first afterwards, as with MIOpen's database.
int solutions(const void* first_shape, std::size_t most, std::size_t* found, Solution* list) {
  if (static_cast<const Tensor*>(first_shape)->type == 0) return not_implemented;
  Solution known[] = {{1, workspace_bytes, with_workspace, 1},
                      {2, 0, without_workspace, 3},
                      {3, std::size_t{1} << 40, too_large, 2}};
  if (fake_miopen_searches > 0) std::swap(known[0], known[1]);
  *found = most < 3 ? most : 3;
  for (std::size_t i = 0; i < *found; ++i) list[i] = known[i];
  return 0;
}

int workspace_of(std::uint64_t solution, std::size_t* bytes) {
  if (solution != with_workspace && solution != without_workspace) return bad_parameter;
  *bytes = solution == with_workspace ? workspace_bytes : 0;
  return 0;
}

int search(const void* convolution, const void* first, const void* second, const void* result, int wanted,
           int* found, FoundAlgorithm* algorithms, std::size_t bytes, bool exhaustive) {
  const int mode = static_cast<const Convolution*>(convolution)->find_mode;
  if ((mode != 1 && mode != 3) || first == nullptr || second == nullptr || result == nullptr || wanted < 1 ||
      bytes < workspace_bytes || exhaustive)
    return bad_parameter;
  ++fake_miopen_searches;
  *found = 1;
  algorithms[0] = {3, 1, 0};
  return 0;
}

int run(void* handle_pointer, const Operand& first, const Operand& second, void* convolution,
        void* result_shape, void* result, Place result_place, void* workspace, std::size_t bytes,
        std::uint64_t solution) {
  ++fake_miopen_runs;
  auto& handle = *static_cast<Handle*>(handle_pointer);
  if (behaves("failing")) return internal_error;
  if (!handle.compiled.contains(solution)) return internal_error;  // the real one would compile it here
  const std::size_t needed = solution == with_workspace ? workspace_bytes : 0;
  if ((workspace == nullptr) != (bytes == 0) || bytes < (behaves("greedy") ? 2 * workspace_bytes : needed))
    return bad_parameter;
  if (!fake::wait(handle.stream)) return internal_error;
  const Tensor* tensors[3] = {};
  tensors[first.place] = static_cast<const Tensor*>(first.shape);
  tensors[second.place] = static_cast<const Tensor*>(second.shape);
  tensors[result_place] = static_cast<const Tensor*>(result_shape);
  const bool bf16 = tensors[0]->type == type_bf16;
  const std::size_t size = bf16 ? 2 : 4;
  fake::Bytes data[3];
  data[first.place] = fake::fetch(first.data, count(*tensors[first.place]), size);
  data[second.place] = fake::fetch(second.data, count(*tensors[second.place]), size);
  std::vector<float> sums(static_cast<std::size_t>(count(*tensors[result_place])));
  const int status =
      walk(*tensors[0], *tensors[1], *tensors[2], *static_cast<const Convolution*>(convolution),
           [&](std::int64_t x, std::int64_t w, std::int64_t y) {
             const std::int64_t places[] = {x, w, y};
             sums[static_cast<std::size_t>(places[result_place])] +=
                 fake::number(data[first.place], places[first.place], bf16) *
                 fake::number(data[second.place], places[second.place], bf16);
           });
  if (status != 0) return status;
  if (behaves("wrong")) sums[sums.size() / 2] += 3;
  fake::Bytes rounded(sums.size() * size);
  for (std::size_t i = 0; i < sums.size(); ++i)
    fake::set_number(rounded, static_cast<std::int64_t>(i), bf16, sums[i]);
  return fake::store(result, rounded);
}

}  // namespace

extern "C" {

int miopenGetVersion(std::size_t* major, std::size_t* minor, std::size_t* patch) {
  *major = 3, *minor = 9, *patch = 1;
  return 0;
}
int miopenCreateWithStream(void** handle, void* stream) {
  *handle = new Handle{stream, {}};
  return 0;
}
int miopenCreateTensorDescriptor(void** tensor) {
  *tensor = new Tensor;
  return 0;
}
int miopenDestroyTensorDescriptor(void* tensor) {
  delete static_cast<Tensor*>(tensor);
  return 0;
}
int miopenSetTensorDescriptor(void* tensor, int type, int axes, const int* sizes, const int* strides) {
  int dense = 1;
  for (int i = axes; i-- > 0; dense *= sizes[i])
    if (sizes[i] < 1 || strides[i] != dense) return bad_parameter;
  if (axes < 4 || axes > 5 || (type != 0 && type != type_f32 && type != type_bf16)) return bad_parameter;
  *static_cast<Tensor*>(tensor) = {type, {sizes, sizes + axes}};
  return 0;
}
int miopenCreateConvolutionDescriptor(void** convolution) {
  *convolution = new Convolution;
  return 0;
}
int miopenDestroyConvolutionDescriptor(void* convolution) {
  delete static_cast<Convolution*>(convolution);
  return 0;
}
int miopenInitConvolutionNdDescriptor(void* convolution, int axes, const int* padding, const int* stride,
                                      const int* dilation, int mode) {
  if (axes < 2 || axes > 3 || mode != 0) return bad_parameter;
  auto& c = *static_cast<Convolution*>(convolution);
  c.padding.assign(padding, padding + axes);
  c.stride.assign(stride, stride + axes);
  c.dilation.assign(dilation, dilation + axes);
  return 0;
}
int miopenSetConvolutionGroupCount(void* convolution, int groups) {
  static_cast<Convolution*>(convolution)->groups = groups;
  return 0;
}
int miopenSetConvolutionAttribute(void* convolution, int attribute, int value) {
  auto& c = *static_cast<Convolution*>(convolution);
  if (attribute == 0) c.f16_as_bf16 = value;
  if (attribute == 1) c.deterministic = value == 1;
  return attribute < 2 ? 0 : bad_parameter;  // as versions before the choice of mathematics
}
int miopenSetConvolutionFindMode(void* convolution, int mode) {
  static_cast<Convolution*>(convolution)->find_mode = mode;
  return 0;
}

// The functions of one operation: the order of operands in immediate mode, then in a search.
#define FAKE_OPERATION(NAME, FIRST, SECOND, RESULT)                                                       \
  int miopenConvolution##NAME##GetSolution(void*, void* first, void*, void*, void*, std::size_t most,     \
                                           std::size_t* found, Solution* list) {                          \
    return solutions(first, most, found, list);                                                           \
  }                                                                                                       \
  int miopenConvolution##NAME##GetSolutionWorkspaceSize(void*, void*, void*, void*, void*,                \
                                                        std::uint64_t solution, std::size_t* bytes) {     \
    return workspace_of(solution, bytes);                                                                 \
  }                                                                                                       \
  int miopenConvolution##NAME##CompileSolution(void* handle, void*, void*, void*, void*,                  \
                                               std::uint64_t solution) {                                  \
    static_cast<Handle*>(handle)->compiled.insert(solution);                                              \
    return 0;                                                                                             \
  }                                                                                                       \
  int miopenConvolution##NAME##Immediate(void* handle, void* first_shape, const void* first,              \
                                         void* second_shape, const void* second, void* convolution,       \
                                         void* result_shape, void* result, void* workspace,               \
                                         std::size_t bytes, std::uint64_t solution) {                     \
    return run(handle, {first_shape, first, FIRST}, {second_shape, second, SECOND}, convolution,          \
               result_shape, result, RESULT, workspace, bytes, solution);                                 \
  }                                                                                                       \
  int miopenConvolution##NAME##GetWorkSpaceSize(void*, void*, void*, void*, void*, std::size_t* bytes) {  \
    *bytes = workspace_bytes;                                                                             \
    return 0;                                                                                             \
  }                                                                                                       \
  int miopenFindConvolution##NAME##Algorithm(                                                             \
      void*, void*, const void* first, void*, const void* second, void* convolution, void*, void* result, \
      int wanted, int* found, FoundAlgorithm* algorithms, void*, std::size_t bytes, bool exhaustive) {    \
    return search(convolution, first, second, result, wanted, found, algorithms, bytes, exhaustive);      \
  }

FAKE_OPERATION(Forward, w_place, x_place, y_place)
FAKE_OPERATION(BackwardData, y_place, w_place, x_place)
#ifndef FAKE_MIOPEN_INCOMPLETE
FAKE_OPERATION(BackwardWeights, y_place, x_place, w_place)
#endif

}  // extern "C"
