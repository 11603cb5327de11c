// What every entry point of the library goes through: exceptions become HIP's error codes, and the last error
// of the calling thread is kept.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>

#include "hip/fault_injection.h"
#include "hip/hip_types.h"

#define HIP_API extern "C" __attribute__((visibility("default")))

namespace hipemu::hip {

// How code below the entry points reports an error.
struct Failure : std::exception {
  explicit Failure(hipError_t error_code) : code(error_code) {}
  const char* what() const noexcept override { return "HIP call failed"; }
  hipError_t code;
};

inline void require(bool condition, hipError_t otherwise) {
  if (!condition) throw Failure(otherwise);
}
// Dereferences a handle that was looked up, or a pointer that must not be null.
template <class T>
T&& require(T&& pointer, hipError_t otherwise) requires(!std::is_same_v<std::remove_cvref_t<T>, bool>) {
  if (!pointer) throw Failure(otherwise);
  return static_cast<T&&>(pointer);
}

// Keeps `error` as the thread's last error unless it is none (or "not ready", which is an answer). Returns
// it.
hipError_t keep_error(hipError_t error) noexcept;
hipError_t translate_exception() noexcept;  // call inside a catch block
const char* error_name(hipError_t error) noexcept;
const char* error_text(hipError_t error) noexcept;
std::optional<hipError_t> error_from_name(std::string_view name) noexcept;

// True from the moment the process begins to exit, and in a child after fork: nothing may be touched any
// more.
bool shutting_down() noexcept;

// `function` is the entry point that calls.
template <class Body>
hipError_t api(Body&& body, const char* function = __builtin_FUNCTION()) noexcept {
  if (shutting_down()) return hipErrorDeinitialized;
  if (const hipError_t fault = injected_fault(function); fault != hipSuccess) return keep_error(fault);
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return hipSuccess;
    } else {
      return keep_error(body());
    }
  } catch (...) {
    return keep_error(translate_exception());
  }
}

}  // namespace hipemu::hip
