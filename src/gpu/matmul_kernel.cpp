// The product that a step asks for, and the text of what follows it.
#include "gpu/matmul_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/strided.h"
#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

GemmStackStrides stack_strides(const Strides& strides) {
  GemmStackStrides result{};
  std::copy(strides.begin(), strides.end(), result.stride);
  return result;
}

}  // namespace

std::string stack_offset(const MatrixProduct& product, std::string_view strides) {
  return product.count == 1 ? "" : fmt::format(" + gemm::stack_offset(stack, {}, product)", strides);
}

MatrixProduct::MatrixProduct(const Step& step)
    : result(step.expression.instructions.empty() ? step.outputs[0].dtype : step.expression.inputs[0]),
      expression(step.expression),
      halves(step.halves),
      joined(step.joined),
      turned(step.turned),
      normed(step.normed) {
  const std::size_t axes = step.domain.size() - 2;
  const Shape outer(step.domain.begin(), step.domain.begin() + static_cast<std::ptrdiff_t>(axes));
  std::vector<Strides> strides;
  if (step.converts) converts = step.inputs.back();
  // A rope's angles and other products' weights lie over no result.
  const std::size_t operands = turned ? 2 : step.inputs.size() - step.converts;
  for (std::size_t i = 0; i < operands; ++i)
    strides.emplace_back(step.inputs[i].strides.begin(),
                         step.inputs[i].strides.begin() + static_cast<std::ptrdiff_t>(axes));
  const StridedLoop loop = collapse(outer, strides);
  if (loop.shape.size() > gemm_axes)
    throw KernelError(
        fmt::format("[matmul] {} axes of a stack that cannot be merged, at most {} are supported",
                    loop.shape.size(), gemm_axes));
  stack.axes = static_cast<int>(loop.shape.size());
  std::copy(loop.shape.begin(), loop.shape.end(), stack.size);
  count = element_count(outer);
  const auto operand = [&](std::size_t i, std::size_t row_axis, std::size_t k_axis) {
    const Layout& layout = step.inputs[i];
    return Operand{layout.dtype,
                   layout.shape[axes + row_axis],
                   layout.shape[axes + k_axis],
                   layout.strides[axes + row_axis],
                   layout.strides[axes + k_axis],
                   loop.strides[i]};
  };
  a = operand(0, 0, 1);
  b = operand(1, 1, 0);
  if (halves && !b.along_k())
    throw KernelError("[matmul] halves of a right operand that does not lie along K");
  for (std::size_t i = 2; i < operands; ++i) {
    const Layout& layout = step.inputs[i];
    inputs.push_back(layout.dtype);
    places.push_back({layout.strides[axes], layout.strides[axes + 1], stack_strides(loop.strides[i])});
  }
  outputs.resize(step.outputs.size() - step.converts + (joined > 0 ? joined - 1 : 0));
  for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k] = step.outputs[result_place(k).output].dtype;
}

FinishText::FinishText(const MatrixProduct& product, bool keeps) {
  const Expression& expression = product.expression;
  const std::string_view result = storage_type(product.result), sum = compute_type(product.a.dtype);
  std::string fields, start, runs, loads, stores;
  const std::size_t products = product.halves ? 2 : 1;  // the expression's first inputs
  std::size_t widest = 2;
  for (const DType dtype : product.outputs) widest = std::max(widest, dtype_size(dtype));
  const auto pass = [&](const std::string& type, const std::string& name) {
    fields += fmt::format("  {} {};\n", type, name);
    parameters += fmt::format(", {} {}", type, name);
    members += fmt::format(", {}", name);
  };
  for (std::size_t k = 0; k < product.output_count(); ++k)
    pass(fmt::format("{}*", storage_type(product.outputs[k])), fmt::format("out{}", k));
  for (std::size_t i = 0; i < product.inputs.size(); ++i) {
    const std::size_t value = i + products;
    pass(fmt::format("const {}*", storage_type(product.inputs[i])), fmt::format("in{}", value));
    pass("GemmPlace", fmt::format("place{}", value));
    start += fmt::format("    at{0} = in{0}{1};\n", value,
                         stack_offset(product, fmt::format("place{}.stack", value)));
    runs += fmt::format(
        "    const auto run{0} = gemm::load_run<N>(at{0} + row * place{0}.row, place{0}.column, from);\n",
        value);
    loads += fmt::format("      const {0} v{1} = load(run{1}.element[e]);\n", compute_type(product.inputs[i]),
                         value);
  }
  for (std::size_t i = 0; i < expression.immediates.size(); ++i)
    pass(std::string(compute_type(expression.immediates[i])), fmt::format("c{}", i));
  fields += "  i64 first = 0;\n";
  for (std::size_t i = 0; i < product.inputs.size(); ++i)
    fields += fmt::format("  const {}* at{} = nullptr;\n", storage_type(product.inputs[i]), i + products);
  if (keeps) fields += "  f32* kept = nullptr;\n  i64 kept_from = 0, kept_row = 0;\n";
  std::string packets, writes;
  for (std::size_t k = 0; k < product.outputs.size(); ++k) {
    const std::string_view type = storage_type(product.outputs[k]);
    packets += fmt::format("    Packet<{}, N> r{};\n", type, k);
    stores += fmt::format("      r{}.element[e] = {};\n", k,
                          expression.instructions.empty()
                              ? "s0"
                              : stored_value(expression, expression.outputs[k], product.outputs[k]));
    const auto [output, part, parts] = product.result_place(k);
    const std::string to =
        parts == 1 ? "index" : fmt::format("(first + row * columns) * {} + {} * columns + from", parts, part);
    writes += fmt::format("    gemm::store_run(out{} + {}, r{});\n", output, to, k);
  }
  if (keeps)
    writes +=
        "#pragma unroll\n    for (int e = 0; e < N; ++e)\n"
        "      kept[row * kept_row + from - kept_from + e] = load(r0.element[e]);\n";
  std::string sums;
  if (expression.instructions.empty())
    sums = fmt::format("      const {0} s0 = store<{0}>(sums.element[e]);\n", result);
  else if (product.halves)
    sums = fmt::format(
        "      const {0} v0 = through<{1}>(sums.left.element[e]), v1 = "
        "through<{1}>(sums.right.element[e]);\n",
        sum, result);
  else
    sums = fmt::format("      const {} v0 = through<{}>(sums.element[e]);\n", sum, result);
  structure = fmt::format(
      "struct Finish {{\n  static constexpr int run_bytes = {0};\n"
      "  GemmStack stack;\n  i64 rows, columns;\n{1}"
      "  DEVICE void start(u64 product, u32) {{\n    first = (i64)product * rows * columns;\n{2}  }}\n",
      widest, fields, start);
  structure += fmt::format(
      "  template <int N>\n  DEVICE void operator()(i64 row, i64 from, const {8}<{0}, N>& sums) const {{\n"
      "    const i64 index = first + row * columns + from;\n{1}{2}"
      "#pragma unroll\n    for (int e = 0; e < N; ++e) {{\n"
      "{3}{4}{5}{6}    }}\n{7}  }}\n}};\n",
      sum, packets, runs, sums, loads, expression_body(expression, "      "), stores, writes,
      product.halves ? "gemm::Pair" : "Packet");
}

std::string matmul_beginning(const MatrixProduct& product) {
  return "#include \"math.h\"\n#include \"gemm.h\"\n" + operation_functions(product.expression);
}

std::string matrix_sources(const MatrixProduct& product, std::string_view tile) {
  const auto source = [&](char operand, const std::string& type, const char* row, const char* rows) {
    return fmt::format(
        "  const auto source_{0} = [&](u64 product, i64 end) {{\n"
        "    return {1}{{{0}{2}, shape.{0}_{3}, shape.{0}_k, shape.{4}, end}};\n  }};\n",
        operand, type, stack_offset(product, fmt::format("stack_{}", operand)), row, rows);
  };
  const auto matrix = [](const Operand& operand) {
    return fmt::format("gemm::Matrix<{}>", storage_type(operand.dtype));
  };
  const std::string a = source('a', matrix(product.a), "row", "rows");
  if (!product.halves) return a + source('b', matrix(product.b), "column", "columns");
  const std::string halves =
      fmt::format("gemm::Halves<{}, {}::pair_width>", storage_type(product.b.dtype), tile);
  return a + source('b', halves, "column", "columns * 2");
}

std::int64_t tile_count(const Step& step, std::int64_t tile_rows, std::int64_t tile_columns) {
  const std::size_t ndim = step.domain.size();
  const std::int64_t rows = step.domain[ndim - 2], columns = step.inputs[1].shape.back();
  std::int64_t stack = rows * columns == 0 ? 0 : 1;
  for (std::size_t axis = 0; axis + 2 < ndim; ++axis) stack *= step.domain[axis];
  return stack * ((rows + tile_rows - 1) / tile_rows) * ((columns + tile_columns - 1) / tile_columns);
}

KernelSource combine_source(const MatrixProduct& product) {
  const FinishText finish(product);
  const std::string kernel = fmt::format(
      "KERNEL void combine(const {}* sums, GemmShape shape, GemmStack stack{}) {{\n"
      "  gemm::combine(shape, sums, Finish{{stack, shape.rows, shape.columns{}}});\n}}\n",
      compute_type(product.a.dtype), finish.parameters, finish.members);
  return {"matmul_combine", matmul_beginning(product) + finish.structure + kernel, {}, 16};
}

bool aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

MatmulKernel::MatmulKernel(GpuDevice& device, const Step& step) : device_(device), product_(step) {
  const Operand &a = product_.a, &b = product_.b;
  shape_ = {.rows = a.rows,
            .columns = product_.columns(),
            .depth = a.depth,
            .a_row = a.row_stride,
            .a_k = a.k_stride,
            .b_column = b.row_stride,
            .b_k = b.k_stride,
            .split_depth = a.depth,
            .row_tiles = 1,
            .column_tiles = 1,
            .splits = 1,
            .products = static_cast<unsigned long long>(product_.count)};
  stack_a_ = stack_strides(a.stack);
  stack_b_ = stack_strides(b.stack);
}

void MatmulKernel::add_finish(Arguments& values, const KernelArguments& arguments,
                              std::vector<Constant>& constants) const {
  for (std::size_t k = 0; k < product_.output_count(); ++k) values.add(arguments.outputs[k]);
  for (std::size_t i = 0; i < product_.inputs.size(); ++i) {
    values.add(arguments.inputs[i + 2]);
    values.add(product_.places[i]);
  }
  add_constants(values, arguments, constants);
}

void MatmulKernel::add_constants(Arguments& values, const KernelArguments& arguments,
                                 std::vector<Constant>& constants) const {
  constants.resize(product_.expression.immediates.size());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    constants[i] = Constant(product_.expression.immediates[i], arguments.numbers[i]);
    values.add(constants[i]);
  }
}

std::size_t MatmulKernel::split_bytes() const {
  return shape_.splits == 1 ? 0 : shape_.splits * static_cast<std::size_t>(results()) * sum_bytes();
}

void MatmulKernel::combine(const Function& function, const KernelArguments& arguments) const {
  Arguments values;
  std::vector<Constant> constants;
  values.add(arguments.scratch);
  values.add(shape_);
  values.add(product_.stack);
  add_finish(values, arguments, constants);
  device_.launch(function,
                 {.x = device_.grid_for(static_cast<std::uint64_t>(results()), combined_by_block),
                  .threads = combining_threads(shape_.columns, sum_bytes())},
                 values);
}

}  // namespace hearth::gpu
