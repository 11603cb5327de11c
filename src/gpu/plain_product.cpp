// From strides to transposes and leading dimensions.
#include "gpu/plain_product.h"

#include <fmt/format.h>

#include "device/strided.h"

namespace hearth::gpu {
namespace {

// (rows, columns) with the given strides.
std::optional<PlainMatrix> plain_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                                        std::int64_t column_stride) {
  // The stride of an axis of size 1 means nothing.
  const bool along_row = column_stride == 1 || columns == 1, along_column = row_stride == 1 || rows == 1;
  if (along_row && (rows == 1 || row_stride >= columns))
    return PlainMatrix{false, rows == 1 ? columns : row_stride, 0};
  if (along_column && (columns == 1 || column_stride >= rows))
    return PlainMatrix{true, columns == 1 ? rows : column_stride, 0};
  return std::nullopt;
}

}  // namespace

std::optional<PlainProduct> plain_product(const Step& step) {
  // The expression behind a library's product is a kernel whose results are dense.
  if (step.joined) return std::nullopt;
  const Layout &a = step.inputs[0], &b = step.inputs[1];
  if (a.dtype != b.dtype || (a.dtype != DType::f32 && a.dtype != DType::f16 && a.dtype != DType::bf16))
    return std::nullopt;
  const std::size_t axes = step.domain.size() - 2;
  PlainProduct product{.dtype = a.dtype,
                       .rows = a.shape[axes],
                       .columns = b.shape[axes + 1],
                       .depth = a.shape[axes + 1],
                       .count = 1,
                       .a = {},
                       .b = {}};
  const auto outer = [&](const auto& values) {
    return std::remove_cvref_t<decltype(values)>(values.begin(),
                                                 values.begin() + static_cast<std::ptrdiff_t>(axes));
  };
  const StridedLoop loop = collapse(outer(step.domain), {outer(a.strides), outer(b.strides)});
  if (loop.shape.size() != 1) return std::nullopt;
  product.count = loop.shape[0];
  if (product.rows == 0 || product.columns == 0 || product.depth == 0 || product.count == 0)
    return std::nullopt;
  const std::int64_t a_stride = loop.strides[0][0], b_stride = loop.strides[1][0];
  // Rows of all products against the same matrix are one product.
  if (product.count > 1 && b_stride == 0 && a_stride == product.rows * a.strides[axes]) {
    product.rows *= product.count;
    product.count = 1;
  }
  const auto left = plain_matrix(product.rows, product.depth, a.strides[axes], a.strides[axes + 1]);
  const auto right = plain_matrix(product.depth, product.columns, b.strides[axes], b.strides[axes + 1]);
  if (!left || !right || a_stride < 0 || b_stride < 0) return std::nullopt;
  product.a = *left;
  product.b = *right;
  if (product.count > 1) {
    product.a.stride = a_stride;
    product.b.stride = b_stride;
  }
  return product;
}

std::string PlainProduct::text() const {
  std::string text = fmt::format("{} {}x{}x{} {}{}", dtype_name(dtype), rows, columns, depth,
                                 a.transposed ? 't' : 'n', b.transposed ? 't' : 'n');
  const std::int64_t dense_a = a.transposed ? rows : depth, dense_b = b.transposed ? depth : columns;
  if (a.leading != dense_a || b.leading != dense_b)
    text += fmt::format(" leading {},{}", a.leading, b.leading);
  if (count > 1) text += fmt::format(" count {} strides {},{}", count, a.stride, b.stride);
  return text;
}

}  // namespace hearth::gpu
