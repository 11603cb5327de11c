// Checks of expert_matmul.
#include "tensor/expert_matmul.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

bool is_narrow_floating(DType dtype) { return is_floating(dtype) && dtype != DType::f64; }

}  // namespace

Tensor expert_matmul(const Tensor& x, const Tensor& weight, const Tensor& chosen) {
  const NodeRef &rows = node_of(x, "expert_matmul"), &matrices = node_of(weight, "expert_matmul"),
                &experts = node_of(chosen, "expert_matmul");
  check_operands("expert_matmul", {&x, &chosen});
  if (!is_narrow_floating(rows->dtype) ||
      !(is_narrow_floating(matrices->dtype) || is_quantised(matrices->dtype)))
    throw DTypeError(fmt::format("[expert_matmul] x {}, weight {}: f32, f16, bf16, or a weight in blocks",
                                 dtype_name(rows->dtype), dtype_name(matrices->dtype)));
  if (experts->dtype != DType::i64)
    throw DTypeError(fmt::format("[expert_matmul] chosen must be i64, got {}", dtype_name(experts->dtype)));
  const Shape &r = rows->shape, &m = matrices->shape, &c = experts->shape;
  if (r.size() != 3 || m.size() != 3 || c.size() != 2 || r[0] != c[0] || (r[1] != 1 && r[1] != c[1]) ||
      r[2] != m[2])
    throw ShapeError(fmt::format("[expert_matmul] x {} does not fit weight {} and chosen {}", to_string(r),
                                 to_string(m), to_string(c)));
  return make_op(Op::expert_matmul, rows->dtype, {c[0], c[1], m[1]}, {rows, matrices, experts});
}

}  // namespace hearth
