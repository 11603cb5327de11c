// Autocast: which type layers compute in, per thread.
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/precision.h"

namespace hearth {
namespace {

// The innermost Autocast of this thread; unset: the configuration decides.
thread_local std::optional<std::optional<DType>> chosen;

}  // namespace

Autocast::Autocast(std::optional<DType> low) : before_(chosen) {
  if (low && *low != DType::f16 && *low != DType::bf16)
    throw DTypeError("[Autocast] f16 or bf16, got " + std::string(dtype_name(*low)));
  const Config current = config();
  if (low == DType::f16 && !current.allow_fp16)
    throw ConfigError("[Autocast] f16 is switched off; set allow_fp16");
  if (low == DType::bf16 && !current.allow_bf16)
    throw ConfigError("[Autocast] bf16 is switched off; set allow_bf16");
  chosen = current.enable_mixed_precision ? low : std::nullopt;
}

Autocast::~Autocast() { chosen = before_; }

std::optional<DType> Autocast::active() {
  if (chosen) return *chosen;
  const Config current = config();
  if (!current.enable_mixed_precision || current.default_precision == DType::f32) return std::nullopt;
  return current.default_precision;
}

Tensor low_precision(const Tensor& x) {
  if (!x.defined() || x.dtype() != DType::f32) return x;
  const auto low = Autocast::active();
  return low ? x.to(*low) : x;
}

Tensor full_precision(const Tensor& x) {
  const bool half = x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16);
  return half && Autocast::active() ? x.to(DType::f32) : x;
}

}  // namespace hearth
