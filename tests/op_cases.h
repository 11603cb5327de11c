// The table of operation cases: what to call, on what, and an independent reference for the result.
//
// Correctness and gradient tests (elementwise_table_test.cpp, op_table_test.cpp) run every case on every
// device, with variations of layout, dtype and surroundings that they generate themselves. A case is one
// entry in op_cases.cpp; an elementwise operation needs only a reference there, its case follows from its row
// in elementwise.inc.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "hearth/tensor.h"
#include "reference.h"

namespace hearth::testing {

using reference::Array;
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;
using ArrayFunction = std::function<Array(const std::vector<Array>&)>;

struct Range {
  double low, high;
};

// ---- elementwise operations
enum class Rule { numeric, floating, integral, rounding, compare, logical };

struct ElementwiseReference {
  std::function<double(double, double)> value;  // of a unary operation the second argument means nothing
  Range a{-3, 3};                               // where values and gradients are compared
  Range b{-3, 3};
  // Allowed error of f32 and f64, in units of rounding (half the last place) of the result. Functions may be
  // off by 4 units in the last place; arithmetic rounds once.
  double roundings = 8;
  // ... and of the largest operand, where the formula of the row subtracts.
  double cancellation = 0;
  // Also with NaN, infinities, zeros, the largest and smallest numbers, but for finite ones beyond the limit.
  bool special = true;
  double special_limit = std::numeric_limits<double>::infinity();
  // Where integers differ from `value` of the same numbers; `bits` is the width of the dtype.
  std::function<std::int64_t(std::int64_t, std::int64_t, int bits)> integer = nullptr;
  Range integer_a{-100, 100};
  Range integer_b{-100, 100};
};

struct ElementwiseCase {
  std::string name;
  bool binary = false;
  Rule rule = Rule::numeric;
  bool has_gradient_a = false, has_gradient_b = false;
  TensorFunction function;
  // Null if op_cases_elementwise.cpp has none for this row; elementwise_table_test fails then.
  const ElementwiseReference* reference = nullptr;
};

// One per row of elementwise.inc.
const std::vector<ElementwiseCase>& elementwise_cases();

// ---- all the others
enum class Kind {
  floating,   // uniform in the range; differentiated
  constant,   // the same, not differentiated
  index,      // i64, low <= value < high
  condition,  // bool
};

struct Input {
  Shape shape;
  Range range{-2, 2};
  Kind kind = Kind::floating;
};

struct OpCase {
  std::string name;  // "operation/what is special"
  std::vector<Input> inputs;
  TensorFunction function;
  ArrayFunction reference;
  bool differentiable = true;
  bool integers = false;  // also with integer dtypes
  // Allowed error: `roundings` units of rounding of the element itself, `accumulation` units of the
  // accumulator's rounding (f32 for halves) of the sum of magnitudes behind the element, and `scale` units of
  // rounding of the largest element.
  double roundings = 1;
  double accumulation = 0;
  double scale = 0;
  ArrayFunction magnitude = nullptr;  // null: the reference of the absolute inputs
  // Another operation has a case of this shape, and this operation one of another shape: brief runs leave out
  // halves (variations.h).
  bool repeats = false;
};

const std::vector<OpCase>& op_cases();

// For GoogleTest.
void PrintTo(const ElementwiseCase& entry, std::ostream* out);
void PrintTo(const OpCase& entry, std::ostream* out);

}  // namespace hearth::testing
