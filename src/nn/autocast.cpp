// Autocast: which type layers compute in, per thread.
#include "hearth/error.h"
#include "hearth/precision.h"

namespace hearth {

namespace {
thread_local std::optional<DType> active_type;
}

Autocast::Autocast(std::optional<DType> low) : before_(active_type) {
  if (low && *low != DType::f16 && *low != DType::bf16) {
    throw DTypeError("[Autocast] f16 or bf16, got " + std::string(dtype_name(*low)));
  }
  active_type = low;
}

Autocast::~Autocast() { active_type = before_; }

std::optional<DType> Autocast::active() { return active_type; }

Tensor low_precision(const Tensor& x) {
  return active_type && x.defined() && x.dtype() == DType::f32 ? x.to(*active_type) : x;
}

Tensor full_precision(const Tensor& x) {
  const bool half = x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16);
  return active_type && half ? x.to(DType::f32) : x;
}

}  // namespace hearth
