// The errors Hearth throws: one family under hearth::Error.
//
// A message names the operation, what it got and what is allowed: "[matmul] inner sizes differ: (3, 4) @ (5,
// 6)".
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace hearth {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Shapes that do not fit an operation or each other.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// A dtype an operation does not take.
class DTypeError : public Error {
 public:
  using Error::Error;
};

// An axis or element index out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};

// Any other argument out of its allowed range.
class ValueError : public Error {
 public:
  using Error::Error;
};

// A device that was asked for and is not there (library missing, no permission, no such index).
class DeviceUnavailable : public Error {
 public:
  using Error::Error;
};

// A device that is there and failed, or tensors on devices that do not fit together.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// A kernel that did not compile; log() is the compiler's own text.
class CompileError : public Error {
 public:
  explicit CompileError(const std::string& message, std::string log = {})
      : Error(message), log_(std::move(log)) {}
  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

// Memory could not be had; the figures are in bytes.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, std::size_t requested, std::size_t available)
      : Error(message), requested_(requested), available_(available) {}
  std::size_t requested() const noexcept { return requested_; }
  std::size_t available() const noexcept { return available_; }

 private:
  std::size_t requested_, available_;
};

// A kernel that failed while running.
class KernelError : public Error {
 public:
  using Error::Error;
};

// A library that computes for us refused or failed.
class LibraryError : public Error {
 public:
  using Error::Error;
};

// A BLAS library (OpenBLAS, rocBLAS, cuBLAS).
class BlasError : public LibraryError {
 public:
  using LibraryError::LibraryError;
};

// A DNN library (MIOpen, cuDNN).
class DnnError : public LibraryError {
 public:
  using LibraryError::LibraryError;
};

// A matrix unit was demanded where the device or the dtype has none.
class MatrixUnitError : public Error {
 public:
  using Error::Error;
};

// A plan pass or tuning step could not be carried out.
class OptimizationError : public Error {
 public:
  using Error::Error;
};

// A configuration option with a wrong name or value.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// A file that cannot be opened, read or written.
class FileError : public Error {
 public:
  using Error::Error;
};

// A file whose contents break the rules of its format.
class FormatError : public Error {
 public:
  using Error::Error;
};

}  // namespace hearth
