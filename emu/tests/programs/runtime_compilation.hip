// hiprtc: a template compiled at run time, found by the name that it was asked for, with a header of its own.
#include <hip/hiprtc.h>

#include <string>
#include <vector>

#include "check.h"

#define RTC_CHECK(call)                                                                                  \
  do {                                                                                                   \
    const hiprtcResult status_ = (call);                                                                 \
    if (status_ != HIPRTC_SUCCESS) {                                                                     \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hiprtcGetErrorString(status_)); \
      std::exit(1);                                                                                      \
    }                                                                                                    \
  } while (0)

static const char* source = R"(
#include "factor.h"
template <class T>
__global__ void scale(T* data, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] *= static_cast<T>(FACTOR + BONUS);
}
__constant__ float offset = 0.5f;
extern "C" __global__ void shift(float* data, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] += offset + sqrtf(4.0f);
}
)";

int main() {
  const char* header = "#define FACTOR 3\n";
  const char* header_name = "factor.h";
  hiprtcProgram program;
  RTC_CHECK(hiprtcCreateProgram(&program, source, "scale.hip", 1, &header, &header_name));
  RTC_CHECK(hiprtcAddNameExpression(program, "scale<float>"));
  RTC_CHECK(hiprtcAddNameExpression(program, "scale<int>"));
  const char* options[] = {"-DBONUS=1", "-O3"};
  const hiprtcResult compiled = hiprtcCompileProgram(program, 2, options);
  size_t log_size = 0;
  RTC_CHECK(hiprtcGetProgramLogSize(program, &log_size));
  std::string log(log_size, '\0');
  RTC_CHECK(hiprtcGetProgramLog(program, log.data()));
  if (compiled != HIPRTC_SUCCESS) std::fprintf(stderr, "%s\n", log.c_str());
  RTC_CHECK(compiled);
  size_t code_size = 0;
  RTC_CHECK(hiprtcGetCodeSize(program, &code_size));
  std::vector<char> code(code_size);
  RTC_CHECK(hiprtcGetCode(program, code.data()));
  const char* lowered = nullptr;
  RTC_CHECK(hiprtcGetLoweredName(program, "scale<float>", &lowered));
  const std::string scale_name = lowered;
  RTC_CHECK(hiprtcDestroyProgram(&program));

  hipModule_t module;
  hipFunction_t scale, shift;
  HIP_CHECK(hipModuleLoadData(&module, code.data()));
  HIP_CHECK(hipModuleGetFunction(&scale, module, scale_name.c_str()));
  HIP_CHECK(hipModuleGetFunction(&shift, module, "shift"));
  unsigned size = 777;
  std::vector<float> data(size);
  for (unsigned i = 0; i < size; ++i) data[i] = static_cast<float>(i);
  float* device;
  HIP_CHECK(hipMalloc(&device, size * sizeof(float)));
  HIP_CHECK(hipMemcpy(device, data.data(), size * sizeof(float), hipMemcpyHostToDevice));

  void* arguments[] = {&device, &size};
  HIP_CHECK(hipModuleLaunchKernel(scale, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  struct {
    float* data;
    unsigned size;
  } packed{device, size};
  size_t packed_size = sizeof packed;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &packed_size,
                   HIP_LAUNCH_PARAM_END};
  HIP_CHECK(hipModuleLaunchKernel(shift, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  HIP_CHECK(hipMemcpy(data.data(), device, size * sizeof(float), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(close_to(data[i], 4.0 * i + 2.5));
  HIP_CHECK(hipFree(device));
  HIP_CHECK(hipModuleUnload(module));
  return passed("runtime_compilation");
}
