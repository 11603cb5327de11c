// Typical kernels of each group. A group adds what its free functions of (target, dtypes, variant) give.
#include "gpu/catalogue.h"

#include <fmt/format.h>

#include "gpu/elementwise_source.h"

namespace hearth::gpu {
namespace {

// An expression in the making: values are numbered as they come.
class Builder {
 public:
  Builder(DType dtype, int inputs, int numbers) : dtype_(dtype) {
    expression_.inputs.assign(static_cast<std::size_t>(inputs), dtype);
    expression_.immediates.assign(static_cast<std::size_t>(numbers), dtype);
  }
  std::uint16_t apply(Op op, std::uint16_t a, std::uint16_t b = 0) {
    expression_.instructions.push_back({op, dtype_, dtype_, {a, b, 0}});
    return last();
  }
  std::uint16_t cast(std::uint16_t value, DType to) {
    expression_.instructions.push_back({Op::cast, dtype_, to, {value, 0, 0}});
    return last();
  }
  Expression finish(std::uint16_t output) {
    expression_.outputs = {output};
    return expression_;
  }

 private:
  std::uint16_t last() const {
    return static_cast<std::uint16_t>(expression_.first_result() + expression_.instructions.size() - 1);
  }
  DType dtype_;
  Expression expression_;
};

struct Named {
  std::string name;
  Expression expression;
};

std::vector<Named> typical_expressions(DType dtype) {
  std::vector<Named> list;
  const auto unary = [&](const char* name, Op op) {
    Builder b(dtype, 1, 0);
    list.push_back({name, b.finish(b.apply(op, 0))});
  };
  const auto binary = [&](const char* name, Op op) {
    Builder b(dtype, 2, 0);
    list.push_back({name, b.finish(b.apply(op, 0, 1))});
  };
  const auto cast = [&](DType to) {
    Builder b(dtype, 1, 0);
    list.push_back({fmt::format("to {}", dtype_name(to)), b.finish(b.cast(0, to))});
  };
  list.push_back({"copy", Builder(dtype, 1, 0).finish(0)});
  binary("x + y", Op::add);
  binary("x * y", Op::mul);
  unary("relu(x)", Op::relu);
  unary("gelu(x)", Op::gelu);
  unary("silu(x)", Op::silu);
  unary("exp(x)", Op::exp);
  unary("tanh(x)", Op::tanh);
  {
    Builder b(dtype, 1, 2);
    list.push_back({"x * a + b", b.finish(b.apply(Op::add, b.apply(Op::mul, 0, 1), 2))});
  }
  {
    Builder b(dtype, 2, 0);  // the gate of a feed-forward block
    list.push_back({"silu(x) * y", b.finish(b.apply(Op::mul, b.apply(Op::silu, 0), 1))});
  }
  if (dtype == DType::f32) {
    cast(DType::f16);
    cast(DType::bf16);
  } else {
    cast(DType::f32);
  }
  return list;
}

void add_elementwise(std::vector<CatalogueEntry>& entries) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Named& named : typical_expressions(dtype)) {
      const Expression& expression = named.expression;
      ElementwiseVariant variant{.inputs = expression.inputs,
                                 .single = std::vector<bool>(expression.inputs.size(), false),
                                 .outputs = {expression.dtype(expression.outputs[0])}};
      variant.packet = packet_length(variant);
      const std::string name = fmt::format("{}, {}", named.name, dtype_name(dtype));
      entries.push_back({name, elementwise_source(expression, variant), "elementwise"});
      if (named.name != "copy" && named.name != "x + y") continue;
      variant.packet = 1;
      variant.axes = 2;
      entries.push_back({name + ", strided", elementwise_source(expression, variant), "elementwise"});
    }
}

}  // namespace

std::vector<CatalogueEntry> catalogue(const Target&) {
  std::vector<CatalogueEntry> entries;
  add_elementwise(entries);
  return entries;
}

}  // namespace hearth::gpu
