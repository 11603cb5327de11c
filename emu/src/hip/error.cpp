// Error codes: names, texts, the last error of each thread.
#include "code_object/code_object.h"
#include "hip/api.h"

namespace hipemu::hip {
namespace {

thread_local hipError_t last_error = hipSuccess;

struct ErrorEntry {
  hipError_t code;
  const char* name;
  const char* text;
};

#define ENTRY(code, text) \
  { code, #code, text }
constexpr ErrorEntry entries[] = {
    ENTRY(hipSuccess, "no error"),
    ENTRY(hipErrorInvalidValue, "invalid argument"),
    ENTRY(hipErrorOutOfMemory, "out of memory"),
    ENTRY(hipErrorNotInitialized, "initialization error"),
    ENTRY(hipErrorDeinitialized, "driver shutting down"),
    ENTRY(hipErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
    ENTRY(hipErrorProfilerNotInitialized, "profiler is not initialized"),
    ENTRY(hipErrorProfilerAlreadyStarted, "profiler already started"),
    ENTRY(hipErrorProfilerAlreadyStopped, "profiler already stopped"),
    ENTRY(hipErrorInvalidConfiguration, "invalid configuration argument"),
    ENTRY(hipErrorInvalidPitchValue, "invalid pitch argument"),
    ENTRY(hipErrorInvalidSymbol, "invalid device symbol"),
    ENTRY(hipErrorInvalidDevicePointer, "invalid device pointer"),
    ENTRY(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ENTRY(hipErrorInsufficientDriver, "driver version is insufficient for runtime version"),
    ENTRY(hipErrorMissingConfiguration, "__global__ function call is not configured"),
    ENTRY(hipErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
    ENTRY(hipErrorInvalidDeviceFunction, "invalid device function"),
    ENTRY(hipErrorNoDevice, "no ROCm-capable device is detected"),
    ENTRY(hipErrorInvalidDevice, "invalid device ordinal"),
    ENTRY(hipErrorInvalidImage, "device kernel image is invalid"),
    ENTRY(hipErrorInvalidContext, "invalid device context"),
    ENTRY(hipErrorContextAlreadyCurrent, "context is already current context"),
    ENTRY(hipErrorMapFailed, "mapping of buffer object failed"),
    ENTRY(hipErrorUnmapFailed, "unmapping of buffer object failed"),
    ENTRY(hipErrorArrayIsMapped, "array is mapped"),
    ENTRY(hipErrorAlreadyMapped, "resource already mapped"),
    ENTRY(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    ENTRY(hipErrorAlreadyAcquired, "resource already acquired"),
    ENTRY(hipErrorNotMapped, "resource not mapped"),
    ENTRY(hipErrorNotMappedAsArray, "resource not mapped as array"),
    ENTRY(hipErrorNotMappedAsPointer, "resource not mapped as pointer"),
    ENTRY(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"),
    ENTRY(hipErrorUnsupportedLimit, "limit is not supported on this architecture"),
    ENTRY(hipErrorContextAlreadyInUse, "exclusive-thread device already in use by a different thread"),
    ENTRY(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ENTRY(hipErrorInvalidKernelFile, "invalid kernel file"),
    ENTRY(hipErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    ENTRY(hipErrorInvalidSource, "device kernel image is invalid"),
    ENTRY(hipErrorFileNotFound, "file not found"),
    ENTRY(hipErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    ENTRY(hipErrorSharedObjectInitFailed, "shared object initialization failed"),
    ENTRY(hipErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ENTRY(hipErrorInvalidHandle, "invalid resource handle"),
    ENTRY(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    ENTRY(hipErrorNotFound, "named symbol not found"),
    ENTRY(hipErrorNotReady, "device not ready"),
    ENTRY(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    ENTRY(hipErrorLaunchOutOfResources, "too many resources requested for launch"),
    ENTRY(hipErrorLaunchTimeOut, "the launch timed out and was terminated"),
    ENTRY(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ENTRY(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ENTRY(hipErrorSetOnActiveProcess, "cannot set while device is active in this process"),
    ENTRY(hipErrorContextIsDestroyed, "context is destroyed"),
    ENTRY(hipErrorAssert, "device-side assert triggered"),
    ENTRY(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ENTRY(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ENTRY(hipErrorLaunchFailure, "unspecified launch failure"),
    ENTRY(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ENTRY(hipErrorNotSupported, "operation not supported"),
    ENTRY(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ENTRY(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ENTRY(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ENTRY(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ENTRY(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ENTRY(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ENTRY(hipErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ENTRY(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ENTRY(hipErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ENTRY(hipErrorGraphExecUpdateFailure,
          "the graph update was not performed because it included changes which violated "
          "constraints specific to instantiated graph update"),
    ENTRY(hipErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    ENTRY(hipErrorInvalidTexture, "invalid texture"),
    ENTRY(hipErrorUnknown, "unknown error"),
    ENTRY(hipErrorRuntimeMemory, "runtime memory call returned error"),
    ENTRY(hipErrorRuntimeOther, "runtime call other than memory returned error"),
};
#undef ENTRY

const ErrorEntry* find_entry(hipError_t code) {
  for (const ErrorEntry& entry : entries)
    if (entry.code == code) return &entry;
  return nullptr;
}

}  // namespace

hipError_t keep_error(hipError_t error) noexcept {
  if (error != hipSuccess && error != hipErrorNotReady) last_error = error;
  return error;
}

hipError_t translate_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const CodeObjectError&) {
    return hipErrorInvalidImage;
  } catch (const std::bad_alloc&) {
    return hipErrorOutOfMemory;
  } catch (...) {
    return hipErrorUnknown;
  }
}

const char* error_name(hipError_t error) noexcept {
  const ErrorEntry* entry = find_entry(error);
  return entry ? entry->name : "hipErrorUnknown";
}

const char* error_text(hipError_t error) noexcept {
  const ErrorEntry* entry = find_entry(error);
  return entry ? entry->text : "unknown error";
}

std::optional<hipError_t> error_from_name(std::string_view name) noexcept {
  for (const ErrorEntry& entry : entries)
    if (entry.name == name) return entry.code;
  return std::nullopt;
}

}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipGetLastError() {
  const hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}
HIP_API hipError_t hipExtGetLastError() { return hipGetLastError(); }
HIP_API hipError_t hipPeekAtLastError() { return last_error; }
HIP_API const char* hipGetErrorName(hipError_t error) { return error_name(error); }
HIP_API const char* hipGetErrorString(hipError_t error) { return error_text(error); }

HIP_API hipError_t hipDrvGetErrorName(hipError_t error, const char** name) {
  return api([&] {
    require(name, hipErrorInvalidValue);
    *name = nullptr;
    *name = require(find_entry(error), hipErrorInvalidValue)->name;
  });
}

HIP_API hipError_t hipDrvGetErrorString(hipError_t error, const char** text) {
  return api([&] {
    require(text, hipErrorInvalidValue);
    *text = nullptr;
    *text = require(find_entry(error), hipErrorInvalidValue)->text;
  });
}
