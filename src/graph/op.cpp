// The op table itself.
#include "graph/op.h"

#include <array>

namespace hearth {
namespace {

constexpr std::array<OpRow, op_count> rows = {{
#define HEARTH_UNARY(name, rule, value, gradient, doc) {#name, OpKind::elementwise, 1, DTypeRule::rule, doc},
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) \
  {#name, OpKind::elementwise, 2, DTypeRule::rule, doc},
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
#define HEARTH_OP(name, kind, doc) {#name, OpKind::kind, 0, DTypeRule::numeric, doc},
    HEARTH_STRUCTURED_OPS(HEARTH_OP)
#undef HEARTH_OP
}};

}  // namespace

const OpRow& op_row(Op op) { return rows[static_cast<std::size_t>(op)]; }

}  // namespace hearth
