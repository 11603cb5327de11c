// The emulator's libamdhip64 as a test sees it: opened at run time, called through C.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "hip/hip_types.h"
#include "hip/hiprtc_types.h"

extern char** environ;

namespace hip_test {

inline void* library() {
  static void* handle = [] {
    void* opened = dlopen(HIPEMU_LIBRARY_FOLDER "/libamdhip64.so.7", RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
    return opened;
  }();
  return handle;
}

template <class Signature>
Signature* symbol(const char* name, void* from = library()) {
  void* found = dlsym(from, name);
  if (!found) {
    std::fprintf(stderr, "the library has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Signature*>(found);
}

#define HIP_FUNCTION(name, ...) inline auto name = symbol<hipError_t(__VA_ARGS__)>(#name)
HIP_FUNCTION(hipInit, unsigned);
HIP_FUNCTION(hipGetDeviceCount, int*);
HIP_FUNCTION(hipSetDevice, int);
HIP_FUNCTION(hipGetDevice, int*);
HIP_FUNCTION(hipDeviceGetName, char*, int, int);
HIP_FUNCTION(hipDeviceGetAttribute, int*, hipDeviceAttribute_t, int);
HIP_FUNCTION(hipDeviceSynchronize, void);
HIP_FUNCTION(hipDeviceReset, void);
HIP_FUNCTION(hipGetLastError, void);
HIP_FUNCTION(hipPeekAtLastError, void);
HIP_FUNCTION(hipMalloc, void**, size_t);
HIP_FUNCTION(hipFree, void*);
HIP_FUNCTION(hipHostMalloc, void**, size_t, unsigned);
HIP_FUNCTION(hipHostFree, void*);
HIP_FUNCTION(hipHostRegister, void*, size_t, unsigned);
HIP_FUNCTION(hipHostUnregister, void*);
HIP_FUNCTION(hipMallocManaged, void**, size_t, unsigned);
HIP_FUNCTION(hipMallocPitch, void**, size_t*, size_t, size_t);
HIP_FUNCTION(hipMallocAsync, void**, size_t, hipStream_t);
HIP_FUNCTION(hipFreeAsync, void*, hipStream_t);
HIP_FUNCTION(hipMemGetInfo, size_t*, size_t*);
HIP_FUNCTION(hipMemcpy, void*, const void*, size_t, hipMemcpyKind);
HIP_FUNCTION(hipMemcpyAsync, void*, const void*, size_t, hipMemcpyKind, hipStream_t);
HIP_FUNCTION(hipMemcpy2D, void*, size_t, const void*, size_t, size_t, size_t, hipMemcpyKind);
HIP_FUNCTION(hipMemset, void*, int, size_t);
HIP_FUNCTION(hipMemsetAsync, void*, int, size_t, hipStream_t);
HIP_FUNCTION(hipMemsetD16, void*, unsigned short, size_t);
HIP_FUNCTION(hipMemsetD32Async, void*, int, size_t, hipStream_t);
HIP_FUNCTION(hipMemset2D, void*, size_t, int, size_t, size_t);
HIP_FUNCTION(hipPointerGetAttributes, hipPointerAttribute_t*, const void*);
HIP_FUNCTION(hipMemGetAddressRange, void**, size_t*, void*);
HIP_FUNCTION(hipStreamCreate, hipStream_t*);
HIP_FUNCTION(hipStreamCreateWithFlags, hipStream_t*, unsigned);
HIP_FUNCTION(hipStreamCreateWithPriority, hipStream_t*, unsigned, int);
HIP_FUNCTION(hipStreamDestroy, hipStream_t);
HIP_FUNCTION(hipStreamSynchronize, hipStream_t);
HIP_FUNCTION(hipStreamQuery, hipStream_t);
HIP_FUNCTION(hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned);
HIP_FUNCTION(hipStreamAddCallback, hipStream_t, hipStreamCallback_t, void*, unsigned);
HIP_FUNCTION(hipLaunchHostFunc, hipStream_t, hipHostFn_t, void*);
HIP_FUNCTION(hipEventCreate, hipEvent_t*);
HIP_FUNCTION(hipEventCreateWithFlags, hipEvent_t*, unsigned);
HIP_FUNCTION(hipEventDestroy, hipEvent_t);
HIP_FUNCTION(hipEventRecord, hipEvent_t, hipStream_t);
HIP_FUNCTION(hipEventSynchronize, hipEvent_t);
HIP_FUNCTION(hipEventQuery, hipEvent_t);
HIP_FUNCTION(hipEventElapsedTime, float*, hipEvent_t, hipEvent_t);
HIP_FUNCTION(hipModuleLoadData, hipModule_t*, const void*);
HIP_FUNCTION(hipModuleLoad, hipModule_t*, const char*);
HIP_FUNCTION(hipModuleUnload, hipModule_t);
HIP_FUNCTION(hipModuleGetFunction, hipFunction_t*, hipModule_t, const char*);
HIP_FUNCTION(hipModuleGetGlobal, void**, size_t*, hipModule_t, const char*);
HIP_FUNCTION(hipFuncGetAttribute, int*, hipFunction_attribute, hipFunction_t);
HIP_FUNCTION(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
             unsigned, hipStream_t, void**, void**);
HIP_FUNCTION(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, int*, hipFunction_t, int, size_t);
HIP_FUNCTION(hipStreamBeginCapture, hipStream_t, hipStreamCaptureMode);
HIP_FUNCTION(hipStreamEndCapture, hipStream_t, hipGraph_t*);
HIP_FUNCTION(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus*);
HIP_FUNCTION(hipGraphCreate, hipGraph_t*, unsigned);
HIP_FUNCTION(hipGraphDestroy, hipGraph_t);
HIP_FUNCTION(hipGraphGetNodes, hipGraph_t, hipGraphNode_t*, size_t*);
HIP_FUNCTION(hipGraphGetEdges, hipGraph_t, hipGraphNode_t*, hipGraphNode_t*, size_t*);
HIP_FUNCTION(hipGraphInstantiate, hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, size_t);
HIP_FUNCTION(hipGraphExecDestroy, hipGraphExec_t);
HIP_FUNCTION(hipGraphLaunch, hipGraphExec_t, hipStream_t);
HIP_FUNCTION(hipGraphAddHostNode, hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t,
             const hipHostNodeParams*);
HIP_FUNCTION(hipGraphAddMemcpyNode1D, hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, void*,
             const void*, size_t, hipMemcpyKind);
HIP_FUNCTION(hipGraphAddMemsetNode, hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t,
             const hipMemsetParams*);
HIP_FUNCTION(hipGraphAddEmptyNode, hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t);
HIP_FUNCTION(hipGraphAddChildGraphNode, hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t,
             hipGraph_t);
HIP_FUNCTION(hipGraphAddDependencies, hipGraph_t, const hipGraphNode_t*, const hipGraphNode_t*, size_t);
HIP_FUNCTION(hipGraphExecMemsetNodeSetParams, hipGraphExec_t, hipGraphNode_t, const hipMemsetParams*);
HIP_FUNCTION(hipGraphExecUpdate, hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*);
HIP_FUNCTION(hipGraphNodeGetType, hipGraphNode_t, int*);
#undef HIP_FUNCTION

#define EXPECT_HIP(call) EXPECT_EQ(call, hipSuccess)
#define ASSERT_HIP(call) ASSERT_EQ(call, hipSuccess)

// Something that no call ever returned.
template <class Handle>
Handle made_up() {
  return reinterpret_cast<Handle>(0x1234567890);
}

struct ChildResult {
  int status = -1;  // of exit; 128 + number for a signal
  std::string output;
};

// Runs tests of this program (disabled ones included) in a process of their own, with more environment.
inline ChildResult run_child(const std::string& filter, const std::vector<std::string>& environment) {
  ChildResult result;
  int ends[2];
  if (pipe(ends) != 0) return result;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  const std::string filter_option = "--gtest_filter=" + filter;
  std::string name = "/proc/self/exe", disabled = "--gtest_also_run_disabled_tests";
  char* argv[] = {name.data(), const_cast<char*>(filter_option.c_str()), disabled.data(), nullptr};
  std::vector<char*> variables;
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    bool replaced = false;
    for (const std::string& given : environment)
      replaced = replaced || text.starts_with(given.substr(0, given.find('=') + 1));
    if (!replaced) variables.push_back(*each);
  }
  for (const std::string& given : environment) variables.push_back(const_cast<char*>(given.c_str()));
  variables.push_back(nullptr);
  // /proc/self is the child once it runs: the name is looked up here.
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  pid_t child = 0;
  const int failure = posix_spawn(&child, path, &actions, nullptr, argv, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return result;
  close(ends[1]);
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;) result.output.append(buffer, size);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// Compiles for the current device. Empty when there is no compiler.
inline std::string compile(const char* source, std::vector<const char*> options = {}) {
  hiprtcProgram program = nullptr;
  const auto create =
      symbol<hiprtcResult(hiprtcProgram*, const char*, const char*, int, const char**, const char**)>(
          "hiprtcCreateProgram");
  const auto build = symbol<hiprtcResult(hiprtcProgram, int, const char**)>("hiprtcCompileProgram");
  const auto log_size = symbol<hiprtcResult(hiprtcProgram, size_t*)>("hiprtcGetProgramLogSize");
  const auto get_log = symbol<hiprtcResult(hiprtcProgram, char*)>("hiprtcGetProgramLog");
  const auto code_size = symbol<hiprtcResult(hiprtcProgram, size_t*)>("hiprtcGetCodeSize");
  const auto get_code = symbol<hiprtcResult(hiprtcProgram, char*)>("hiprtcGetCode");
  const auto destroy = symbol<hiprtcResult(hiprtcProgram*)>("hiprtcDestroyProgram");
  if (create(&program, source, "test.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return "";
  std::string code;
  if (build(program, static_cast<int>(options.size()), options.data()) == HIPRTC_SUCCESS) {
    size_t size = 0;
    code_size(program, &size);
    code.resize(size);
    get_code(program, code.data());
  } else {
    size_t size = 0;
    log_size(program, &size);
    std::string log(size, 0);
    get_log(program, log.data());
    if (log.find("no clang++ found") == std::string::npos) ADD_FAILURE() << log;
  }
  destroy(&program);
  return code;
}

}  // namespace hip_test
