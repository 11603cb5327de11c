// The CPU's scan, movement, indexing, random and conversion kernels against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/thread_pool.h"
#include "cpu/elementwise_kernels.h"
#include "cpu_steps.h"
#include "device/strided.h"
#include "graph/random.h"
#include "hearth/error.h"

#define HEARTH_ISA test
#include "cpu/isa/philox.h"

namespace hearth::cpu {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;

// Row-major position <-> coordinates.
Shape coordinates(std::int64_t i, const Shape& shape) {
  Shape result(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    result[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return result;
}
std::int64_t position(const Shape& at, const Shape& shape) {
  std::int64_t result = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) result = result * shape[axis] + at[axis];
  return result;
}

// ---- strided.h

TEST(Strided, CollapseMergesWhatIsContiguousForAll) {
  const auto loop = collapse({2, 3, 1, 4}, {{12, 4, 4, 1}, {12, 4, 9, 1}});
  EXPECT_EQ(loop.shape, (Shape{24}));
  EXPECT_EQ(loop.strides[1], (Strides{1}));
  const auto split = collapse({2, 3, 4}, {{12, 4, 1}, {0, 4, 1}});
  EXPECT_EQ(split.shape, (Shape{2, 12}));
  EXPECT_EQ(split.strides[0], (Strides{12, 1}));
  EXPECT_EQ(split.strides[1], (Strides{0, 1}));
  EXPECT_EQ(collapse({5, 6}, {{0, 0}}).shape, (Shape{30}));
  EXPECT_EQ(collapse({}, {{}, {}}).shape, (Shape{1}));
  EXPECT_EQ(collapse({3, 0, 2}, {{0, 2, 1}}).shape, (Shape{0}));
  EXPECT_EQ(collapse({3, 4}, {{-4, -1}}).strides[0], (Strides{-1}));
}

TEST(Strided, RunsCoverEveryElementOnce) {
  const Shape shape{3, 4, 5};
  const Strides a{40, 5, 1}, b{0, -10, 2};
  const auto loop = collapse(shape, {a, b});
  for (std::int64_t begin = 0; begin < 60; begin += 7)
    for (std::int64_t end = begin; end <= 60; end += 9) {
      std::vector<std::pair<std::int64_t, std::int64_t>> seen, expected;
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i)
          seen.emplace_back(offsets[0] + i * loop.inner_stride(0), offsets[1] + i * loop.inner_stride(1));
      });
      for (std::int64_t i = begin; i < end; ++i) {
        const Shape at = coordinates(i, shape);
        expected.emplace_back(at[0] * a[0] + at[1] * a[1] + at[2] * a[2],
                              at[0] * b[0] + at[1] * b[1] + at[2] * b[2]);
      }
      EXPECT_EQ(seen, expected) << begin << ".." << end;
    }
}

// ---- scan

// Splits an array into its lines along an axis: line(l)[k] are row-major positions.
std::vector<std::vector<std::int64_t>> lines_of(const Shape& shape, std::size_t axis) {
  std::vector<std::vector<std::int64_t>> lines;
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    Shape at = coordinates(i, shape);
    if (at[axis] != 0) continue;
    std::vector<std::int64_t> line;
    for (; at[axis] < shape[axis]; ++at[axis]) line.push_back(position(at, shape));
    lines.push_back(line);
  }
  return lines;
}

Shape with_size(Shape shape, std::size_t axis, std::int64_t size) {
  shape[axis] = size;
  return shape;
}

TEST(Scan, ArgmaxAndArgmin) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Shape shape{3, 7, 130};
        const Array x = random_array(dtype, shape, lay);
        const Values values = x.values();
        const Array largest = run_step(make_scan, Op::argmax, AxisAttributes{static_cast<std::int64_t>(axis)},
                                       {x}, DType::i64, with_size(shape, axis, 1));
        const Array smallest =
            run_step(make_scan, Op::argmin, AxisAttributes{static_cast<std::int64_t>(axis)}, {x}, DType::i64,
                     with_size(shape, axis, 1));
        const auto lines = lines_of(shape, axis);
        for (std::size_t l = 0; l < lines.size(); ++l) {
          Values line;
          for (auto i : lines[l]) line.push_back(values[static_cast<std::size_t>(i)]);
          ASSERT_EQ(largest.get(static_cast<std::int64_t>(l)),
                    std::max_element(line.begin(), line.end()) - line.begin());
          ASSERT_EQ(smallest.get(static_cast<std::int64_t>(l)),
                    std::min_element(line.begin(), line.end()) - line.begin());
        }
      }
}

TEST(Scan, TheFirstNanIsLargestAndSmallest) {
  const Values column = {1, infinity, nan, 5, nan, -infinity};
  const Values clean = {-infinity, -infinity, -infinity, -infinity, -infinity, -infinity};
  for (DType dtype : every_floating) {
    Values both;  // two columns, so that lines are walked side by side as well
    for (std::size_t i = 0; i < column.size(); ++i) both.insert(both.end(), {column[i], clean[i]});
    for (Op op : {Op::argmax, Op::argmin}) {
      EXPECT_EQ(
          run_step(make_scan, op, AxisAttributes{0}, {array_of(dtype, {6}, column)}, DType::i64, {1}).get(0),
          2);
      const Array out =
          run_step(make_scan, op, AxisAttributes{0}, {array_of(dtype, {6, 2}, both)}, DType::i64, {1, 2});
      EXPECT_EQ(out.values(), (Values{2, 0}));
    }
  }
}

TEST(Scan, CumulativeSumsAndProducts) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Shape shape{5, 4, 71};
        const Array x = random_array(dtype, shape, lay, 3, -1, 2);
        const DType result = is_floating(dtype) ? dtype : DType::i64;
        const auto attribute = AxisAttributes{static_cast<std::int64_t>(axis)};
        const Array sums = run_step(make_scan, Op::cumsum, attribute, {x}, result, shape);
        const Array products = run_step(make_scan, Op::cumprod, attribute, {x}, result, shape);
        for (const auto& line : lines_of(shape, axis)) {
          double sum = 0, product = 1;
          for (auto i : line) {
            sum += x.get(i);
            product *= x.get(i);
            ASSERT_EQ(sums.get(i), sum);
            if (std::abs(product) < 128) {
              ASSERT_EQ(products.get(i), product);
            }
          }
        }
      }
}

TEST(Scan, HalvesAccumulateInFloat) {
  const Array ones = array_of(DType::bf16, {1000}, Values(1000, 1.0));
  EXPECT_EQ(run_step(make_scan, Op::cumsum, AxisAttributes{0}, {ones}, DType::bf16, {1000}).get(999), 1000);
}

TEST(Scan, ArgsortIsStable) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (bool descending : {false, true})
        for (std::int64_t count : {53, 5, 0}) {
          const Shape shape{3, 53, 2};
          const Array x = random_array(dtype, shape, lay);
          const Array order = run_step(make_scan, Op::argsort, AxisAttributes{1, descending}, {x}, DType::i64,
                                       with_size(shape, 1, count));
          const auto lines = lines_of(shape, 1);
          const auto sorted = lines_of(with_size(shape, 1, count), 1);
          for (std::size_t l = 0; l < sorted.size(); ++l) {
            std::vector<std::int64_t> expected(53);
            std::iota(expected.begin(), expected.end(), 0);
            std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) {
              const double p = x.get(lines[l][static_cast<std::size_t>(a)]),
                           q = x.get(lines[l][static_cast<std::size_t>(b)]);
              return descending ? p > q : p < q;
            });
            for (std::size_t k = 0; k < sorted[l].size(); ++k)
              ASSERT_EQ(order.get(sorted[l][k]), expected[k]);
          }
        }
}

TEST(Scan, ArgsortOfNanZerosAndInfinities) {
  const Values x = {0.0, nan, -0.0, infinity, -infinity, -nan, 1, -1};
  for (DType dtype : every_floating) {
    const auto sorted = [&](bool descending) {
      return run_step(make_scan, Op::argsort, AxisAttributes{0, descending}, {array_of(dtype, {8}, x)},
                      DType::i64, {8})
          .values();
    };
    EXPECT_EQ(sorted(false), (Values{4, 7, 0, 2, 6, 3, 1, 5}));
    EXPECT_EQ(sorted(true), (Values{1, 5, 3, 6, 0, 2, 7, 4}));
  }
}

TEST(Scan, ArgsortOfWideIntegers) {
  Array x = empty_array(DType::i64, {4});
  auto* data = static_cast<std::int64_t*>(x.data());
  data[0] = std::numeric_limits<std::int64_t>::max();
  data[1] = std::numeric_limits<std::int64_t>::min();
  data[2] = data[0] - 1;
  data[3] = -1;
  EXPECT_EQ(run_step(make_scan, Op::argsort, AxisAttributes{0}, {x}, DType::i64, {4}).values(),
            (Values{1, 3, 2, 0}));
}

TEST(Scan, EmptyArraysAndScalars) {
  for (Op op : {Op::cumsum, Op::cumprod, Op::argsort})
    for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 3}, Shape{}}) {
      const DType result = op == Op::argsort ? DType::i64 : DType::f32;
      EXPECT_EQ(run_step(make_scan, op, AxisAttributes{0}, {random_array(DType::f32, shape)}, result, shape)
                    .count(),
                element_count(shape));
    }
  EXPECT_EQ(run_step(make_scan, Op::argmax, AxisAttributes{1}, {empty_array(DType::f32, {0, 3})}, DType::i64,
                     {0, 1})
                .count(),
            0);
  EXPECT_THROW(run_step(make_scan, Op::argmax, AxisAttributes{1}, {empty_array(DType::f32, {3, 0})},
                        DType::i64, {3, 1}),
               ValueError);
}

// ---- movement

TEST(Movement, Concat) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        Shape shapes[3] = {{3, 4, 5}, {3, 4, 5}, {3, 4, 5}};
        shapes[1][axis] = 0;
        shapes[2][axis] = 7;
        std::vector<Array> inputs;
        for (unsigned k = 0; k < 3; ++k) inputs.push_back(random_array(dtype, shapes[k], lay, k + 1));
        const Shape shape = with_size(shapes[0], axis, shapes[0][axis] + 7);
        const Array out = run_step(make_movement, Op::concat, AxisAttributes{static_cast<std::int64_t>(axis)},
                                   inputs, dtype, shape);
        for (std::int64_t i = 0; i < out.count(); ++i) {
          Shape at = coordinates(i, shape);
          const bool first = at[axis] < shapes[0][axis];
          if (!first) at[axis] -= shapes[0][axis];
          ASSERT_EQ(out.get(i), inputs[first ? 0 : 2].get(position(at, shapes[first ? 0 : 2])));
        }
      }
}

TEST(Movement, LargeArraysAreSplitAmongThreads) {
  const Array a = random_array(DType::i32, {150000}), b = random_array(DType::i32, {150001}, Lay::gapped, 2);
  const Array out = run_step(make_movement, Op::concat, AxisAttributes{0}, {a, b}, DType::i32, {300001});
  Values expected = a.values();
  const Values second = b.values();
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(out.values(), expected);
}

TEST(Movement, Pad) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay) {
      const Shape shape{2, 3, 5}, before{1, 0, 2}, padded{4, 3, 8};
      const Array x = random_array(dtype, shape, lay);
      const Array out = run_step(make_movement, Op::pad, PadAttributes{before, 1.0}, {x}, dtype, padded);
      for (std::int64_t i = 0; i < out.count(); ++i) {
        Shape at = coordinates(i, padded);
        bool inside = true;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          at[axis] -= before[axis];
          inside &= at[axis] >= 0 && at[axis] < shape[axis];
        }
        ASSERT_EQ(out.get(i), inside ? x.get(position(at, shape)) : 1.0);
      }
    }
}

TEST(Movement, PadAnEmptyArray) {
  const Array out = run_step(make_movement, Op::pad, PadAttributes{{1, 2}, -3.5},
                             {empty_array(DType::f32, {2, 0})}, DType::f32, {4, 3});
  EXPECT_EQ(out.values(), Values(12, -3.5));
  EXPECT_EQ(
      run_step(make_movement, Op::pad, PadAttributes{{}, 1}, {array_of(DType::f32, {}, {5})}, DType::f32, {})
          .get(0),
      5);
}

TEST(Movement, Unslice) {
  const std::pair<Shape, Shape> cases[] = {
      {{1, 0, 2}, {1, 1, 1}}, {{3, 2, 0}, {-2, -1, 2}}, {{0, 0, 6}, {2, 1, -1}}};
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (const auto& [start, steps] : cases) {
        const Shape shape{2, 3, 4}, whole{5, 3, 8};
        const Array x = random_array(dtype, shape, lay);
        Values expected(static_cast<std::size_t>(element_count(whole)), 0.0);
        for (std::int64_t i = 0; i < x.count(); ++i) {
          Shape at = coordinates(i, shape);
          for (std::size_t axis = 0; axis < 3; ++axis) at[axis] = start[axis] + at[axis] * steps[axis];
          expected[static_cast<std::size_t>(position(at, whole))] = x.get(i);
        }
        const Array out =
            run_step(make_movement, Op::unslice, SliceAttributes{start, steps}, {x}, dtype, whole);
        ASSERT_EQ(out.values(), expected);
      }
}

TEST(Movement, Arange) {
  for (DType dtype : every_dtype) {
    const Array out = run_step(make_movement, Op::arange, RangeAttributes{3, 2}, {}, dtype, {50});
    for (std::int64_t i = 0; i < 50; ++i)
      ASSERT_EQ(out.get(i), dtype == DType::bool_ ? 1 : 3 + 2 * static_cast<double>(i));
  }
  const Array fractions = run_step(make_movement, Op::arange, RangeAttributes{-1, 0.1}, {}, DType::f64, {5});
  EXPECT_EQ(fractions.get(3), -1 + 0.1 * 3);
  const Array wide = run_step(make_movement, Op::arange, RangeAttributes{0x1p62, 1}, {}, DType::i64, {2});
  EXPECT_EQ(static_cast<const std::int64_t*>(wide.data())[1], (std::int64_t(1) << 62) + 1);
  EXPECT_EQ(run_step(make_movement, Op::arange, RangeAttributes{1, -1}, {}, DType::f16, {0}).count(), 0);
}

// ---- indexing

constexpr DType index_dtypes[] = {DType::i8, DType::i32, DType::i64, DType::u8, DType::i16};

Array random_indices(DType dtype, const Shape& shape, int size, Lay lay = Lay::dense, unsigned seed = 5) {
  return random_array(dtype, shape, lay, seed, -size, size - 1);
}

std::int64_t wrapped(double index, std::int64_t size) {
  return static_cast<std::int64_t>(index) + (index < 0 ? size : 0);
}

TEST(Indexing, Take) {
  for (DType dtype : every_dtype)
    for (DType index_dtype : index_dtypes)
      for (Lay lay : every_lay)
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const Shape shape{4, 3, 5};
          const Array x = random_array(dtype, shape, lay);
          const Array indices = random_indices(index_dtype, {2, 7}, static_cast<int>(shape[axis]), lay);
          Shape out_shape = with_size(shape, axis, 2);
          out_shape.insert(axis + 1, 7);
          const Array out = run_step(make_indexing, Op::take, AxisAttributes{static_cast<std::int64_t>(axis)},
                                     {x, indices}, dtype, out_shape);
          for (std::int64_t i = 0; i < out.count(); ++i) {
            Shape at = coordinates(i, out_shape);
            const double index = indices.get(at[axis] * 7 + at[axis + 1]);
            at.erase(axis + 1);
            at[axis] = wrapped(index, shape[axis]);
            ASSERT_EQ(out.get(i), x.get(position(at, shape)));
          }
        }
}

TEST(Indexing, TakeWithAScalarIndexAndFromNothing) {
  const Array x = random_array(DType::f32, {4, 3});
  const Array row = run_step(make_indexing, Op::take, AxisAttributes{0}, {x, array_of(DType::i64, {}, {-1})},
                             DType::f32, {3});
  EXPECT_EQ(row.values(), (Values{x.get(9), x.get(10), x.get(11)}));
  EXPECT_EQ(run_step(make_indexing, Op::take, AxisAttributes{0},
                     {empty_array(DType::f32, {0, 3}), empty_array(DType::i64, {0})}, DType::f32, {0, 3})
                .count(),
            0);
  EXPECT_THROW(
      run_step(make_indexing, Op::take, AxisAttributes{0},
               {empty_array(DType::f32, {0, 3}), array_of(DType::i64, {1}, {0})}, DType::f32, {1, 3}),
      IndexError);
}

TEST(Indexing, HostileIndicesAreRefused) {
  const Array x = random_array(DType::f32, {5, 2});
  const Array source = random_array(DType::f32, {1, 2});
  Array hostile = empty_array(DType::i64, {1});
  Array hostile_plane = empty_array(DType::i64, {1, 2});
  for (std::int64_t index :
       {std::int64_t(7), std::int64_t(5), std::int64_t(-6), std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    static_cast<std::int64_t*>(hostile.data())[0] = index;
    static_cast<std::int64_t*>(hostile_plane.data())[0] = 0;
    static_cast<std::int64_t*>(hostile_plane.data())[1] = index;
    const AxisAttributes axis{0};
    EXPECT_THROW(run_step(make_indexing, Op::take, axis, {x, hostile}, DType::f32, {1, 2}), IndexError);
    EXPECT_THROW(run_step(make_indexing, Op::index_add, axis, {hostile, source}, DType::f32, {5, 2}),
                 IndexError);
    EXPECT_THROW(run_step(make_indexing, Op::gather, axis, {x, hostile_plane}, DType::f32, {1, 2}),
                 IndexError);
    EXPECT_THROW(run_step(make_indexing, Op::scatter, axis, {x, hostile_plane, source}, DType::f32, {5, 2}),
                 IndexError);
    EXPECT_THROW(
        run_step(make_indexing, Op::scatter_add, axis, {x, hostile_plane, source}, DType::f32, {5, 2}),
        IndexError);
  }
  try {
    run_step(make_indexing, Op::take, AxisAttributes{0}, {x, array_of(DType::i32, {1}, {7})}, DType::f32,
             {1, 2});
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_STREQ(error.what(), "[take] index 7 is out of range for size 5");
  }
  EXPECT_THROW(run_step(make_indexing, Op::take, AxisAttributes{0}, {x, array_of(DType::f32, {1}, {0})},
                        DType::f32, {1, 2}),
               DTypeError);
}

TEST(Indexing, IndexAdd) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Shape shape{4, 3, 6};
        Shape source_shape = with_size(shape, axis, 2);
        source_shape.insert(axis + 1, 5);
        const Array indices = random_indices(DType::i32, {2, 5}, static_cast<int>(shape[axis]), lay);
        const Array source = random_array(dtype, source_shape, lay, 9, -3, 3);
        Values expected(static_cast<std::size_t>(element_count(shape)), 0.0);
        for (std::int64_t i = 0; i < source.count(); ++i) {
          Shape at = coordinates(i, source_shape);
          const double index = indices.get(at[axis] * 5 + at[axis + 1]);
          at.erase(axis + 1);
          at[axis] = wrapped(index, shape[axis]);
          double& sum = expected[static_cast<std::size_t>(position(at, shape))];
          sum = dtype == DType::bool_ ? std::max(sum, source.get(i)) : sum + source.get(i);
        }
        const Array out =
            run_step(make_indexing, Op::index_add, AxisAttributes{static_cast<std::int64_t>(axis)},
                     {indices, source}, dtype, shape);
        ASSERT_EQ(out.values(), expected);
      }
}

TEST(Indexing, SumsDoNotDependOnTheThreadCount) {
  const Array indices = random_indices(DType::i64, {3000}, 40);
  const Array source = normal_array(DType::f32, {3000, 700});
  std::vector<std::uint64_t> results[2];
  const int before = thread_count();
  for (int threads : {1, 3}) {
    set_thread_count(threads);
    results[threads == 1] =
        run_step(make_indexing, Op::index_add, AxisAttributes{0}, {indices, source}, DType::f32, {40, 700})
            .memory;
  }
  set_thread_count(before);
  EXPECT_EQ(results[0], results[1]);
}

TEST(Indexing, HalvesAreAddedUpInFloat) {
  const Array ones = array_of(DType::f16, {4000}, Values(4000, 1.0));
  const Array zeros = array_of(DType::i64, {4000}, Values(4000, 0.0));
  EXPECT_EQ(
      run_step(make_indexing, Op::index_add, AxisAttributes{0}, {zeros, ones}, DType::f16, {2}).values(),
      (Values{4000, 0}));
  EXPECT_EQ(run_step(make_indexing, Op::scatter_add, AxisAttributes{0},
                     {array_of(DType::f16, {2}, {0.5, 1}), zeros, ones}, DType::f16, {2})
                .values(),
            (Values{4000, 1}));
}

TEST(Indexing, Gather) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Shape shape{4, 5, 6};
        const Shape out_shape = with_size({3, 5, 4}, axis, 9);
        const Array x = random_array(dtype, shape, lay);
        const Array indices = random_indices(DType::i64, out_shape, static_cast<int>(shape[axis]), lay);
        const Array out = run_step(make_indexing, Op::gather, AxisAttributes{static_cast<std::int64_t>(axis)},
                                   {x, indices}, dtype, out_shape);
        for (std::int64_t i = 0; i < out.count(); ++i) {
          Shape at = coordinates(i, out_shape);
          at[axis] = wrapped(indices.get(i), shape[axis]);
          ASSERT_EQ(out.get(i), x.get(position(at, shape)));
        }
      }
}

TEST(Indexing, ScatterAndScatterAdd) {
  for (DType dtype : every_dtype)
    for (Lay lay : every_lay)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Shape shape{4, 5, 6};
        const Shape index_shape = with_size({3, 5, 4}, axis, 9);
        const Array x = random_array(dtype, shape, lay, 1, -3, 3);
        const Array indices = random_indices(DType::i32, index_shape, static_cast<int>(shape[axis]), lay);
        const Array source = random_array(dtype, index_shape, lay, 2, -3, 3);
        Values replaced = x.values(), added = x.values();
        for (std::int64_t i = 0; i < indices.count(); ++i) {
          Shape at = coordinates(i, index_shape);
          at[axis] = wrapped(indices.get(i), shape[axis]);
          const auto to = static_cast<std::size_t>(position(at, shape));
          replaced[to] = source.get(i);
          added[to] = dtype == DType::bool_ ? std::max(added[to], source.get(i)) : added[to] + source.get(i);
        }
        const AxisAttributes attributes{static_cast<std::int64_t>(axis)};
        EXPECT_EQ(
            run_step(make_indexing, Op::scatter, attributes, {x, indices, source}, dtype, shape).values(),
            replaced);
        EXPECT_EQ(
            run_step(make_indexing, Op::scatter_add, attributes, {x, indices, source}, dtype, shape).values(),
            added);
      }
}

TEST(Indexing, ScatterOfNothingCopies) {
  const Array x = random_array(DType::f32, {3, 4}, Lay::transposed);
  const Array none = empty_array(DType::i64, {0, 4}), source = empty_array(DType::f32, {0, 4});
  EXPECT_EQ(
      run_step(make_indexing, Op::scatter, AxisAttributes{0}, {x, none, source}, DType::f32, {3, 4}).values(),
      x.values());
}

// ---- random

// Every half, what lies in the middle of two, and what lies beside these: by the machine's instructions as by
// float16 itself, which has none.
TEST(Conversion, HalvesAreRoundedToTheNearest) {
  std::vector<float> numbers;
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {
    float16 low, high;
    low.bits = static_cast<std::uint16_t>(half);
    high.bits = static_cast<std::uint16_t>(half + 1);
    const float middle = half == 0x7bff ? 65520.0f : (static_cast<float>(low) + static_cast<float>(high)) / 2;
    for (const std::uint32_t bits : {0u, ~0u, 1u})
      numbers.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(middle) + bits));
    numbers.push_back(low);
  }
  numbers.insert(numbers.end(), {65536.0f, 1e30f, std::numeric_limits<float>::infinity(), 1e-30f, 1e-45f});
  for (std::size_t i = 0, count = numbers.size(); i < count; ++i) numbers.push_back(-numbers[i]);
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  const auto n = static_cast<std::int64_t>(numbers.size());
  std::vector<float16> stored(numbers.size());
  std::vector<float> narrowed(numbers.size());
  const ElementwiseKernels& kernels = elementwise_kernels();
  kernels.store[static_cast<int>(DType::f16)](stored.data(), numbers.data(), nullptr, nullptr, n);
  kernels.narrow[static_cast<int>(DType::f16)](narrowed.data(), numbers.data(), nullptr, nullptr, n);
  EXPECT_TRUE(std::isnan(static_cast<float>(stored.back())) && std::isnan(narrowed.back()));
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float16 expected(numbers[i]);
    ASSERT_EQ(stored[i].bits, expected.bits) << numbers[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(narrowed[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
        << numbers[i];
  }
}

TEST(Random, PhiloxGivesThePublishedNumbers) {
  const auto check = [](test::PhiloxBlock counter, std::uint32_t k0, std::uint32_t k1,
                        test::PhiloxBlock expected) {
    const auto block = test::philox_block(counter, k0, k1);
    EXPECT_EQ(block.w0, expected.w0);
    EXPECT_EQ(block.w1, expected.w1);
    EXPECT_EQ(block.w2, expected.w2);
    EXPECT_EQ(block.w3, expected.w3);
  };
  check({0, 0, 0, 0}, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0,
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

Array draw(Op op, DType dtype, std::int64_t count, std::uint64_t seed = 0, std::uint64_t offset = 0) {
  return run_step(make_random, op, {}, {}, dtype, {count}, Number{0, 0, seed, offset});
}

TEST(Random, ElementsFollowTheDocumentedMapping) {
  const std::uint64_t seed = 0x123456789abcdef0u,
                      offset = 0xfffffffdu;  // crosses into the counter's second word
  const auto words = [&](std::int64_t block) {
    const std::uint64_t number = offset + static_cast<std::uint64_t>(block);
    const auto b = test::philox_block(
        {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0},
        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    return std::vector<std::uint32_t>{b.w0, b.w1, b.w2, b.w3};
  };
  const auto wide = [&](std::int64_t i) {
    const auto w = words(i / 2);
    const auto k = static_cast<std::size_t>(i % 2) * 2;
    return w[k] | static_cast<std::uint64_t>(w[k + 1]) << 32;
  };
  const Array f32 = draw(Op::random_uniform, DType::f32, 5001, seed, offset);
  const Array f64 = draw(Op::random_uniform, DType::f64, 5001, seed, offset);
  const Array bits = draw(Op::random_bits, DType::i64, 5001, seed, offset);
  const Array normal = draw(Op::random_normal, DType::f32, 5001, seed, offset);
  const Array normal64 = draw(Op::random_normal, DType::f64, 5001, seed, offset);
  for (std::int64_t i = 0; i < 5001; ++i) {
    const auto w = words(i / 4);
    ASSERT_EQ(f32.get(i), (w[static_cast<std::size_t>(i % 4)] >> 8) * 0x1p-24);
    ASSERT_EQ(f64.get(i), static_cast<double>(wide(i) >> 11) * 0x1p-53);
    ASSERT_EQ(static_cast<const std::uint64_t*>(bits.data())[i], wide(i) >> 1);
    const std::size_t even = static_cast<std::size_t>(i % 4) / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(w[even] * 0x1p-32 + 0x1p-33));
    const double angle = 2 * M_PI * (w[even + 1] >> 8) * 0x1p-24;
    ASSERT_NEAR(normal.get(i), radius * (i % 2 ? std::sin(angle) : std::cos(angle)), 2e-6);
    const double radius64 =
        std::sqrt(-2 * std::log(static_cast<double>((wide(i / 2 * 2) >> 11) + 1) * 0x1p-53));
    const double angle64 = 2 * M_PI * (static_cast<double>(wide(i / 2 * 2 + 1) >> 11) * 0x1p-53);
    ASSERT_NEAR(normal64.get(i), radius64 * (i % 2 ? std::sin(angle64) : std::cos(angle64)), 1e-12);
  }
}

TEST(Random, BlocksUsed) {
  EXPECT_EQ(random_blocks(Op::random_uniform, DType::f32, 0), 0u);
  EXPECT_EQ(random_blocks(Op::random_uniform, DType::f32, 1), 1u);
  EXPECT_EQ(random_blocks(Op::random_normal, DType::f16, 9), 3u);
  EXPECT_EQ(random_blocks(Op::random_normal, DType::f64, 9), 5u);
  EXPECT_EQ(random_blocks(Op::random_bits, DType::i64, 8), 4u);
  // An operation that starts where the first one ended continues the sequence.
  const Array whole = draw(Op::random_uniform, DType::f32, 24, 5, 10);
  const Array second =
      draw(Op::random_uniform, DType::f32, 12, 5, 10 + random_blocks(Op::random_uniform, DType::f32, 12));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(second.get(i), whole.get(12 + i));
}

TEST(Random, MomentsOfUniform) {
  for (DType dtype : every_floating) {
    const std::int64_t count = 200000;
    const Array x = draw(Op::random_uniform, dtype, count, 42);
    double sum = 0, squares = 0, least = 1, most = 0;
    for (double value : x.values()) {
      sum += value;
      squares += value * value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    const double tolerance = dtype == DType::bf16 ? 0.006 : 0.003;  // rounding down shifts the mean
    EXPECT_NEAR(sum / count, 0.5, tolerance);
    EXPECT_NEAR(squares / count, 1.0 / 3, tolerance);
    EXPECT_GE(least, 0);
    EXPECT_LT(most, 1);
    EXPECT_LT(least, 1e-3);
    EXPECT_GT(most, 0.99);
  }
}

TEST(Random, MomentsOfNormal) {
  for (DType dtype : every_floating) {
    const std::int64_t count = 400001;
    const Array x = draw(Op::random_normal, dtype, count, 7);
    double moments[5] = {};
    for (double value : x.values()) {
      ASSERT_TRUE(std::isfinite(value));
      for (int k = 1; k <= 4; ++k) moments[k] += std::pow(value, k) / count;
    }
    EXPECT_NEAR(moments[1], 0, 0.01);
    EXPECT_NEAR(moments[2], 1, 0.01);
    EXPECT_NEAR(moments[3], 0, 0.03);
    EXPECT_NEAR(moments[4], 3, 0.08);
  }
}

TEST(Random, BitsAreNotNegativeAndDiffer) {
  const Array x = draw(Op::random_bits, DType::i64, 10000);
  const auto* data = static_cast<const std::int64_t*>(x.data());
  EXPECT_GE(*std::min_element(data, data + 10000), 0);
  EXPECT_EQ(std::set<std::int64_t>(data, data + 10000).size(), 10000u);
  EXPECT_GT(*std::max_element(data, data + 10000), std::numeric_limits<std::int64_t>::max() / 10 * 9);
}

TEST(Random, TheSameForEveryThreadCount) {
  const int before = thread_count();
  for (Op op : {Op::random_uniform, Op::random_normal})
    for (DType dtype : every_floating) {
      std::vector<std::uint64_t> results[2];
      for (int threads : {1, 3}) {
        set_thread_count(threads);
        results[threads == 1] = draw(op, dtype, 123457, 99, 3).memory;
      }
      EXPECT_EQ(results[0], results[1]);
    }
  set_thread_count(before);
}

TEST(Random, RefusesOtherDtypes) {
  EXPECT_THROW(draw(Op::random_uniform, DType::i32, 4), DTypeError);
  EXPECT_THROW(draw(Op::random_bits, DType::i32, 4), DTypeError);
  EXPECT_EQ(draw(Op::random_normal, DType::f32, 0).count(), 0);
}

}  // namespace
}  // namespace hearth::cpu
