#include "gpu/slot_finish.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/tensor_map.h"

namespace hearth::gpu {

std::vector<std::size_t> slot_inputs(const MatrixProduct& product) {
  std::vector<std::size_t> found;
  if (product.stack.axes > 1) return found;
  for (std::size_t i = 0; i < product.inputs.size(); ++i)
    if (product.inputs[i] == slot_type(product) && product.whole_runs(i) &&
        takes_axes({{product.columns(), 1, 64},
                    {product.a.rows, product.places[i].row, 64},
                    {product.places[i].stack.stride[0] == 0 ? 1 : product.count,
                     product.places[i].stack.stride[0], 1}}))
      found.push_back(i);
  return found;
}

bool slot_results(const MatrixProduct& product) {
  return product.whole_results() && (product.result == slot_type(product) || product.result == DType::f32) &&
         std::all_of(product.outputs.begin(), product.outputs.end(),
                     [&](DType dtype) { return dtype == slot_type(product); });
}

SlotFinishText::SlotFinishText(const MatrixProduct& product, const std::vector<std::size_t>& in_slots) {
  const Expression& expression = product.expression;
  const std::string_view type = storage_type(slot_type(product)), result = storage_type(product.result),
                         sum = compute_type(product.a.dtype);
  const std::size_t products = product.halves ? 2 : 1;  // the expression's first inputs
  std::string fields, start, runs, loads, declared, stores, words;
  const auto pass = [&](const std::string& field, const std::string& name) {
    fields += fmt::format("  {} {};\n", field, name);
    parameters += fmt::format(", {} {}", field, name);
    members += fmt::format(", {}", name);
  };
  for (std::size_t i = 0; i < product.inputs.size(); ++i) {
    const std::size_t value = i + products;
    const std::string_view stored = storage_type(product.inputs[i]);
    const auto slot = std::find(in_slots.begin(), in_slots.end(), i);
    if (slot != in_slots.end()) {
      runs += fmt::format("    const auto run{} = bit_cast<Packet<{}, 2>>(inputs[{}]);\n", value, stored,
                          slot - in_slots.begin());
    } else {
      pass(fmt::format("const {}*", stored), fmt::format("in{}", value));
      pass("GemmPlace", fmt::format("place{}", value));
      start += fmt::format("    at{0} = in{0}{1};\n", value,
                           stack_offset(product, fmt::format("place{}.stack", value)));
      runs += fmt::format(
          "    const auto run{0} = gemm::load_run<2>(at{0} + row * place{0}.row, place{0}.column, "
          "column);\n",
          value);
    }
    loads += fmt::format("      const {0} v{1} = load(run{1}.element[e]);\n", compute_type(product.inputs[i]),
                         value);
  }
  for (std::size_t i = 0; i < expression.immediates.size(); ++i)
    pass(std::string(compute_type(expression.immediates[i])), fmt::format("c{}", i));
  for (std::size_t i = 0; i < product.inputs.size(); ++i)
    if (std::find(in_slots.begin(), in_slots.end(), i) == in_slots.end())
      fields += fmt::format("  const {}* at{} = nullptr;\n", storage_type(product.inputs[i]), i + products);
  for (std::size_t k = 0; k < product.outputs.size(); ++k) {
    declared += fmt::format("    Packet<{}, 2> r{};\n", type, k);
    stores += fmt::format("      r{}.element[e] = {};\n", k,
                          expression.instructions.empty()
                              ? fmt::format("store<{}>(v0)", type)
                              : stored_value(expression, expression.outputs[k], product.outputs[k]));
    words += fmt::format("    results[{0}] = bit_cast<u32>(r{0});\n", k);
  }
  const std::string sums =
      expression.instructions.empty() ? fmt::format("      const {} v0 = sums.element[e];\n", sum)
      : product.halves                ? fmt::format(
                                            "      const {0} v0 = through<{1}>(sums.left.element[e]), "
                                                           "v1 = through<{1}>(sums.right.element[e]);\n",
                                            sum, result)
                       : fmt::format("      const {} v0 = through<{}>(sums.element[e]);\n", sum, result);
  // Rows and columns beyond the last, whose results are nobody's, read those of the last ones.
  structure = fmt::format(
      "struct Finish {{\n  GemmStack stack;\n  i64 rows, columns;\n{0}"
      "  DEVICE void start(u64 product, u32) {{\n{1}  }}\n"
      "  DEVICE void operator()(i64 row, i64 column, const {2}<{3}, 2>& sums, const u32* inputs, u32* "
      "results) "
      "const {{\n"
      "    if (row >= rows) row = rows - 1;\n    if (column >= columns) column = columns - 2;\n{4}{5}"
      "#pragma unroll\n    for (int e = 0; e < 2; ++e) {{\n{6}{7}{8}{9}    }}\n{10}  }}\n}};\n",
      fields, start, product.halves ? "gemm::Pair" : "Packet", sum, runs, declared, sums, loads,
      expression_body(expression, "      "), stores, words);
}

}  // namespace hearth::gpu
