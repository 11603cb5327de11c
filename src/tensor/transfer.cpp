// Transfer, over the backend's uploads.
#include "hearth/transfer.h"

#include "device/backend.h"
#include "tensor/variable.h"

namespace hearth {

struct Transfer::State {
  Shape shape;
  DType dtype;
  Device device;
  std::unique_ptr<Upload> upload;  // null: result is there
  Tensor result;
};

Transfer::Transfer(const Tensor& tensor, Device device)
    : state_(std::make_unique<State>(State{tensor.shape(), tensor.dtype(), device, nullptr, {}})) {
  if (tensor.device() == device) {
    state_->result = tensor;
    return;
  }
  const HostElements elements(tensor);
  if (!is_quantised(tensor.dtype()) && !elements.bytes().empty())
    state_->upload = backend(device).upload(elements.bytes().data(), elements.bytes().size());
  if (!state_->upload) state_->result = from_host(elements.bytes(), state_->shape, state_->dtype, device);
}

Transfer::~Transfer() = default;
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;

bool Transfer::done() const { return !state_->upload || state_->upload->done(); }

Tensor Transfer::get() {
  if (state_->upload) {
    state_->result =
        make_value(state_->shape, state_->dtype,
                   {state_->upload->finish(), 0, contiguous_strides(state_->shape)}, state_->device);
    state_->upload.reset();
  }
  return state_->result;
}

}  // namespace hearth
