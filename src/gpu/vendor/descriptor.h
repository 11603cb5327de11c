// A library's descriptor, which is destroyed with its owner.
#pragma once

namespace hearth::gpu {

using Descriptor = void*;  // of a tensor, an operation, a preference, ...

class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int (*destroy)(Descriptor)) : destroy_(destroy) {}
  ~OwnedDescriptor() {
    if (value_ != nullptr) destroy_(value_);
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  Descriptor* place() { return &value_; }
  Descriptor get() const { return value_; }

 private:
  Descriptor value_ = nullptr;
  int (*destroy_)(Descriptor);
};

}  // namespace hearth::gpu
