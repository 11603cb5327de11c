// Products and the expression behind them: what it reads lies in all ways that matter, results in one or
// several tensors, tiles end in the middle.
#include <gtest/gtest.h>

#include "gpu/matmul.h"
#include "gpu_steps.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

// What the expression reads, laid over the result.
enum class Place {
  dense,
  of_stack,   // the same for all products
  row,        // the same for all rows
  column,     // the same for all columns
  heads,      // products side by side in a row
  gapped,     // every row followed by others
  unaligned,  // from the second element of memory on
  flipped     // rows from the last to the first
};

Array place(DType dtype, const Shape& shape, Place how, unsigned seed) {
  const std::int64_t stack = shape[0], rows = shape[1], columns = shape[2];
  Array array = random_array(dtype, {stack * rows * columns * 2 + 1}, Lay::dense, seed, -2, 2);
  array.layout.shape = shape;
  Strides& strides = array.layout.strides;
  switch (how) {
    case Place::dense:
    case Place::unaligned:
      strides = {rows * columns, columns, 1};
      break;
    case Place::of_stack:
      strides = {0, columns, 1};
      break;
    case Place::row:
      strides = {columns, 0, 1};
      break;
    case Place::column:
      strides = {rows, 1, 0};
      break;
    case Place::heads:
      strides = {columns, stack * columns, 1};
      break;
    case Place::gapped:
      strides = {2 * rows * columns, 2 * columns, 1};
      break;
    case Place::flipped:
      strides = {rows * columns, -columns, 1};
      array.origin = (rows - 1) * columns;
      break;
  }
  if (how == Place::unaligned) array.origin = 1;
  return array;
}

struct Case {
  Shape a;  // (stack, rows, depth)
  std::int64_t columns;
  std::vector<Place> reads;
  std::vector<DType> types = {};  // of what is read; the product's without them
  int results = 1;                // each without the first read of the one before
  DType stored = DType::bf16;     // where there is one result
  DType product = DType::bf16;    // before the expression
  bool columns_first_a = false, columns_first_b = false;
};

Array operand(const Shape& shape, bool columns_first, unsigned seed) {
  if (!columns_first) return random_array(DType::bf16, shape, Lay::dense, seed, -2, 2);
  Array array = random_array(DType::bf16, {shape[0], shape[2], shape[1]}, Lay::dense, seed, -2, 2);
  std::swap(array.layout.shape[1], array.layout.shape[2]);
  std::swap(array.layout.strides[1], array.layout.strides[2]);
  return array;
}

// Sums are whole numbers, and small: they are the same in every order, and in 16 bits.
class GpuProductResults : public OnTestGpu {
 protected:
  static void check(MatmulVariant variant, const Case& one) {
    const DType dtype = one.product;
    const std::int64_t stack = one.a[0], rows = one.a[1], depth = one.a[2];
    SCOPED_TRACE(to_string(one.a) + " x " + std::to_string(one.columns) + ", " +
                 std::to_string(one.reads.size()) + " reads, " + std::to_string(one.results) +
                 " results, variant " + std::to_string(static_cast<int>(variant)));
    const Shape shape = {stack, rows, one.columns};
    std::vector<Array> inputs = {operand(one.a, one.columns_first_a, 1),
                                 operand({stack, depth, one.columns}, one.columns_first_b, 2)};
    const Array product = cpu::run_step(cpu::make_matmul, Op::matmul, {}, inputs, dtype, shape);
    Step step;
    Expression& expression = step.expression;
    expression.inputs = {dtype};
    for (std::size_t i = 0; i < one.reads.size(); ++i) {
      const DType type = one.types.empty() ? dtype : one.types[i];
      inputs.push_back(place(type, shape, one.reads[i], static_cast<unsigned>(3 + i)));
      expression.inputs.push_back(type);
    }
    // One sum after another, in the type of the result.
    std::vector<Array> expected;
    for (int k = 0; k < one.results; ++k) {
      const DType type = one.results == 1 ? one.stored : dtype;
      std::uint16_t value = 0;
      const auto then = [&](Op op, DType from, DType to, std::uint16_t a, std::uint16_t b) {
        expression.instructions.push_back({op, from, to, {a, b, 0}});
        return static_cast<std::uint16_t>(expression.inputs.size() + expression.instructions.size() - 1);
      };
      if (type != dtype) value = then(Op::cast, dtype, type, value, 0);
      for (std::size_t i = static_cast<std::size_t>(k); i < one.reads.size(); ++i) {
        auto read = static_cast<std::uint16_t>(1 + i);
        if (expression.inputs[read] != type) read = then(Op::cast, expression.inputs[read], type, read, 0);
        value = then(Op::add, type, type, value, read);
      }
      if (!expression.instructions.empty()) expression.outputs.push_back(value);
      Array& results = expected.emplace_back(cpu::empty_array(type, shape));
      for (std::int64_t i = 0; i < product.count(); ++i) {
        results.set(i, product.get(i));
        for (std::size_t read = static_cast<std::size_t>(k); read < one.reads.size(); ++read)
          results.set(i, results.get(i) + inputs[2 + read].get(i));
      }
    }
    step.op = Op::matmul;
    step.domain = shape;
    for (const Array& input : inputs) step.inputs.push_back(input.layout);
    for (const Array& result : expected) step.outputs.push_back(result.layout);
    if (expression.instructions.empty()) expression = {};
    const auto kernel = make_matmul(*test_gpu(), step, variant);
    const std::vector<Array> got = run_all_on_gpu(*test_gpu(), step, *kernel, inputs);
    for (std::size_t k = 0; k < got.size(); ++k) expect_close(got[k], expected[k], 0);
  }

  static std::vector<MatmulVariant> variants() {
    if (unit() != MatrixUnit::wgmma90) return {MatmulVariant::automatic};
    return {MatmulVariant::automatic, MatmulVariant::wgmma_128, MatmulVariant::wgmma_192,
            MatmulVariant::wgmma_256};
  }
};

TEST_F(GpuProductResults, ThemselvesInAllSizes) {
  for (const MatmulVariant variant : variants())
    for (const std::int64_t rows : {1, 64, 65, 129})
      for (const std::int64_t columns : {8, 40, 72, 264}) check(variant, {{1, rows, 40}, columns, {}});
}

TEST_F(GpuProductResults, OfAllLayouts) {
  for (const MatmulVariant variant : variants())
    for (const bool first_a : {false, true})
      for (const bool first_b : {false, true}) {
        Case one{{3, 136, 72}, 200, {Place::dense}};
        one.columns_first_a = first_a;
        one.columns_first_b = first_b;
        check(variant, one);
      }
}

TEST_F(GpuProductResults, WithWhatIsReadInAllPlaces) {
  for (const MatmulVariant variant : variants())
    for (const Place how : {Place::dense, Place::of_stack, Place::row, Place::column, Place::heads,
                            Place::gapped, Place::unaligned, Place::flipped}) {
      check(variant, {{3, 130, 40}, 200, {how}});
      check(variant, {{1, 70, 40}, 72, {Place::dense, how}});
    }
}

TEST_F(GpuProductResults, WithManyInputs) {
  for (const MatmulVariant variant : variants())
    for (std::size_t count = 1; count <= 6; ++count)
      check(variant, {{2, 130, 24}, 264, std::vector<Place>(count, Place::dense)});
}

TEST_F(GpuProductResults, InSeveralTensors) {
  for (const MatmulVariant variant : variants())
    for (int results = 2; results <= 5; ++results) {
      Case one{{2, 130, 24}, 136, std::vector<Place>(static_cast<std::size_t>(results), Place::dense)};
      one.results = results;
      check(variant, one);
    }
}

TEST_F(GpuProductResults, OfOtherTypes) {
  for (const MatmulVariant variant : variants()) {
    Case wide{{2, 130, 24}, 136, {Place::dense, Place::row}};
    wide.stored = DType::f32;
    check(variant, wide);
    Case mixed{
        {2, 130, 24}, 136, {Place::dense, Place::dense, Place::row}, {DType::bf16, DType::f32, DType::i64}};
    check(variant, mixed);
  }
}

// As language models have them: operands of 16 bits, everything else of 32.
TEST_F(GpuProductResults, OfSumsInF32) {
  for (const MatmulVariant variant : variants())
    for (std::size_t count = 0; count <= 2; ++count) {
      Case one{{1, 260, 136}, 264, std::vector<Place>(count, Place::dense)};
      one.product = one.stored = DType::f32;
      check(variant, one);
    }
}

// Rows of b and of results that do not begin on packets; with columns_first only those of results.
TEST_F(GpuProductResults, WithOddRows) {
  check(MatmulVariant::automatic, {{2, 130, 24}, 133, {Place::dense}});
  for (const MatmulVariant variant : variants()) {
    Case one{{2, 130, 24}, 133, {Place::dense}};
    one.columns_first_b = true;
    check(variant, one);
  }
}

// More tiles than blocks, each of which has several.
TEST_F(GpuProductResults, OfManyTiles) {
  if (unit() != MatrixUnit::wgmma90) GTEST_SKIP() << "for one kind of kernels";
  for (const MatmulVariant variant : variants()) {
    check(variant, {{1, 20000, 72}, 520, {}});
    check(variant, {{1, 20000, 72}, 520, {Place::dense}});
    check(variant, {{3, 7000, 136}, 392, {Place::heads, Place::dense}});
  }
}

}  // namespace
}  // namespace hearth::gpu
