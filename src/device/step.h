// Step: what a backend is asked to run. A plan is a list of steps; a backend turns each into a Kernel once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/attributes.h"
#include "graph/node.h"
#include "graph/op.h"
#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth {

// How one argument lies in memory. The pointer given at run time is that of element (0, 0, ...).
struct Layout {
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;
  bool contiguous() const { return is_contiguous(shape, strides); }
};

// An elementwise computation in static single assignment form. Values are numbered: first the inputs, then
// the immediates (numbers known at each run), then the result of each instruction.
struct Expression {
  struct Instruction {
    Op op;
    DType operand;  // dtype of the operands (of a and b for `where`)
    DType result;
    std::uint16_t operands[3] = {0, 0, 0};
  };
  std::vector<DType> inputs;
  std::vector<DType> immediates;
  std::vector<Instruction> instructions;
  std::vector<std::uint16_t>
      outputs;  // values that are stored (for a reduction: the first one is reduced, not stored)

  std::size_t first_result() const { return inputs.size() + immediates.size(); }
  DType dtype(std::size_t value) const {
    if (value < inputs.size()) return inputs[value];
    if (value < first_result()) return immediates[value - inputs.size()];
    return instructions[value - first_result()].result;
  }
};

// A product whose columns are heads of queries, then of keys, then of values: the first two go through rope;
// keys and values become rows of a cache. Inputs 2.. are the rope's positions (and frequencies), a cache and
// the slots of the rows for keys and for values. Outputs: (heads + groups, n, size) as the rope has it, of
// which only the queries are written, and the two caches.
struct StoredHeads {
  RopeAttributes rope;
  std::int64_t heads = 0, groups = 0, size = 0;  // heads of queries; of keys, and of values; features of each
  std::size_t keys = 0, values = 0;              // inputs: the caches; slots are behind them
};

// A product some of whose columns are heads that go through rope where they lie: sequences of `time` rows
// each, by positions that all of them share. Inputs 2.. are the rope's positions (and frequencies).
struct TurnedHeads {
  RopeAttributes rope;
  std::int64_t time = 0, size = 0;  // rows of a sequence; features of a head
  std::int64_t begin = 0, end = 0;  // columns, whole heads
  std::int64_t half() const { return size / 2; }
};

// A concat of heads, (sequences, time, heads, features) each, whose first parts go through rope on the way,
// by positions that all sequences share. Behind the parts, the inputs are the rope's positions (and
// frequencies).
struct TurnedParts {
  RopeAttributes rope;
  std::size_t parts = 0, turned = 0;
};

// A concat of the gradients of one attention by q, k and v, (sequences, time, heads, features) each, of which
// the first two may go through rope on the way. Inputs: q, k, v, the attention's packed result and the
// gradient that comes in, and then the rope's positions (and frequencies).
struct AttentionGradients {
  AttentionAttributes attention;
  std::optional<RopeAttributes> rope;
};

// Rows that a step rounds to bytes for the product behind it (Backend::rounds_rows): its first output, which
// is stored as always; the last one is the bytes and, behind them, two numbers for each `run` neighbours
// (Note in gpu/kernels/rounded_rows.h). `weighted`: the product goes through a norm. Each number is
// multiplied with one of the step's last input first, the norm's weight.
struct RoundedRows {
  std::uint32_t run = 0;
  bool weighted = false;
};

// One kernel's worth of work.
//
//   elementwise  for every index of `domain`: evaluate the expression, store outputs[k]. Inputs are laid out
//   over the
//                domain (stride 0 where broadcast); outputs are dense.
//   reduce       the same, and outputs[0] is the reduction of the expression's first output over the
//   attribute's axes;
//                outputs[1..] store the expression's further outputs.
//   matmul, conv the operation on the first inputs; then, if the expression has instructions, the expression
//   over the
//                dense result: its input 0 is the result, inputs 1.. are the step's remaining inputs laid out
//                over `domain`, the result's shape. A matmul with `halves`: inputs 0 and 1 of the
//                expression are the left and the right half of the product's columns, inputs 2.. the
//                remaining ones, and `domain` is the shape of a half. Or, if `turned`, a rope of some of the
//                columns: see TurnedHeads. The last `joined` results of the expression, all of one type, are
//                columns of a single output, side by side. If `normed`, its one result goes through an
//                rms_norm over its columns with that epsilon, without weights.
//   quantised_matmul      likewise, and of a norm of x where Backend::takes_norm() said so. Or, if `stored`,
//   what
//                becomes of queries, keys and values: see StoredHeads.
//                Of x there may be but what an earlier step has made of it (RoundedRows), with `x_run`
//                neighbours that share a scale; its layout says what it was.
//                If `converts`, its last input is the weights of a later step, and its last output the same
//                weights as dense numbers: nothing else here has to do with them.
//   layer_norm, rms_norm  the operation; the result is that of the expression's cast where it has one.
//   rms_norm_grads, layer_norm_grads  the operation; a fourth input is added to the gradient by x.
//   others       the operation `op` itself.
//
// An elementwise step may have parts (Backend::most_parts): the same expression over values of its own for
// each, whose inputs, outputs and immediates follow those of the part before. Inputs are dense or a single
// element. So may store_rows, with tensors of the same sizes.
struct Step {
  Op op = Op::value;
  Attributes attributes;
  Shape domain;
  std::vector<std::int64_t> parts;  // elements of each; empty: one part, the domain
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  Expression expression;
  bool halves = false;
  std::uint32_t joined = 0;
  std::optional<StoredHeads> stored;
  std::optional<TurnedHeads> turned;
  std::optional<double> normed;
  bool converts = false;
  std::optional<RoundedRows> rounds;                      // of a quantised_matmul or cached_attention
  std::uint32_t x_run = 0;                                // of a quantised_matmul; 0: x is there as it is
  std::optional<TurnedParts> turned_parts;                // of a concat
  std::optional<AttentionGradients> attention_gradients;  // of a concat
  std::uint32_t steady = 0;  // a bit for each input that is a leaf which no step before this one writes to
};

struct KernelArguments {
  void* const* inputs;
  void* const* outputs;
  const Number* numbers;    // the expression's immediates; for random operations seed and offset
  void* scratch = nullptr;  // Kernel::scratch_bytes() of memory, nobody else's during the run
};

// A step made ready for a device. Kernels keep no state between runs; one may run in several plans.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Memory on the device that a run needs besides inputs and outputs; it becomes part of the plan's arena.
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual void run(const KernelArguments& arguments) const = 0;
};

}  // namespace hearth
