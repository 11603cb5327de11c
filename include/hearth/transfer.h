// Copying to a device while it computes.
//
//   Transfer next(batch, device);   // begins now, beside the work that the device has been given
//   ...                             // a step on the batch before
//   Tensor x = next.get();
#pragma once

#include <memory>

#include "hearth/tensor.h"

namespace hearth {

// A copy of a tensor to a device. Computes the tensor first where that is not done yet; its memory is not
// needed any more when the constructor returns. One thread at a time may use a Transfer.
class Transfer {
 public:
  // Throws OutOfMemory, DeviceError.
  Transfer(const Tensor& tensor, Device device);
  ~Transfer();
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;

  bool done() const;  // the copy has ended
  // The tensor on the device. Does not wait: what is computed from it does, on the device.
  Tensor get();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth
