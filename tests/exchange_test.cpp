// Memory that is shared with other libraries.
#include "hearth/exchange.h"

#include <gtest/gtest.h>

#include <array>

#include "hearth/error.h"
#include "hearth/ops.h"

namespace hearth {
namespace {

TEST(Exchange, MemoryOfATensorIsTheTensors) {
  const Tensor x = arange(0, 6).reshape({2, 3}) + 0;
  const TensorMemory memory = memory_of(x);
  EXPECT_EQ(memory.data, x.data<float>().data());
  EXPECT_EQ(memory.shape, (Shape{2, 3}));
  EXPECT_EQ(memory.strides, (Strides{3, 1}));
  EXPECT_EQ(memory.dtype, DType::f32);
}

TEST(Exchange, ViewsAreSharedWithTheirStrides) {
  const Tensor x = arange(0, 6).reshape({2, 3}).eval();
  const TensorMemory memory = memory_of(slice(x, {{}, {Slice::open, Slice::open, -1}}).t());
  EXPECT_EQ(memory.strides, (Strides{-1, 3}));
  EXPECT_EQ(*static_cast<const float*>(memory.data), 2);
}

TEST(Exchange, TheValueStaysWhenTheTensorIsAssigned) {
  Tensor x = arange(0, 3) + 0;
  const TensorMemory memory = memory_of(x);
  x.assign(zeros({3}));
  x.eval();
  EXPECT_EQ(static_cast<const float*>(memory.data)[2], 2);
}

TEST(Exchange, ATensorOverMemoryOfOthers) {
  auto owner = std::make_shared<std::array<float, 6>>(std::array<float, 6>{0, 1, 2, 3, 4, 5});
  std::weak_ptr<std::array<float, 6>> alive = owner;
  // The columns backwards, every row.
  Tensor x = from_memory({owner->data() + 2, {2, 3}, {3, -1}, DType::f32, {}, owner});
  owner.reset();
  EXPECT_EQ(memory_of(x).data, alive.lock()->data() + 2);
  EXPECT_EQ((x * 2).to_vector<float>(), (std::vector<float>{4, 2, 0, 10, 8, 6}));
  x = {};
  EXPECT_TRUE(alive.expired());
}

TEST(Exchange, WrongMemoryIsRefused) {
  const std::array<float, 2> values{};
  const auto* unaligned = reinterpret_cast<const char*>(values.data()) + 1;
  EXPECT_THROW(from_memory({unaligned, {1}, {1}, DType::f32, {}, nullptr}), ValueError);
  EXPECT_THROW(from_memory({values.data(), {2}, {}, DType::f32, {}, nullptr}), ShapeError);
  EXPECT_THROW(from_memory({values.data(), {-2}, {1}, DType::f32, {}, nullptr}), ShapeError);
  EXPECT_THROW(from_memory({values.data(), {32}, {1}, DType::q8_0, {}, nullptr}), DTypeError);
}

TEST(Exchange, BackwardReturnsTheGradientsItChanged) {
  Tensor x = ones({2}).requires_grad_(), y = ones({2}).requires_grad_(), unused = ones({2}).requires_grad_();
  const std::vector<Tensor> changed = (x * y * 3).sum().backward();
  ASSERT_EQ(changed.size(), 2u);
  for (const Tensor& gradient : changed) EXPECT_TRUE(gradient.is(x.grad()) || gradient.is(y.grad()));
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE((x * 2).is_leaf());
}

}  // namespace
}  // namespace hearth
