// A product by columns, for the stand-ins of AMD's libraries of products.
#pragma once

#include "device_memory.h"

namespace fake {

constexpr int failed = 6;

struct Matrix {  // as stored: rows lie side by side
  std::int64_t rows, columns, leading, stride;
  bool transposed;
};

// d (m, n) = op(a) (m, k) @ op(b) (k, n), all by columns.
inline int gemm(void* stream, bool bf16, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count,
                const void* a, const Matrix& a_is, const void* b, const Matrix& b_is, void* d,
                const Matrix& d_is) {
  if (!wait(stream)) return failed;
  const std::size_t size = bf16 ? 2 : 4;
  const auto operand = [&](const void* from, const Matrix& is) {
    return fetch(from, (count - 1) * is.stride + (is.columns - 1) * is.leading + is.rows, size);
  };
  const Bytes left = operand(a, a_is), right = operand(b, b_is);
  const auto at = [](const Matrix& is, std::int64_t p, std::int64_t row, std::int64_t column) {
    return p * is.stride + (is.transposed ? row * is.leading + column : column * is.leading + row);
  };
  Bytes result(static_cast<std::size_t>((count - 1) * d_is.stride + (n - 1) * d_is.leading + m) * size);
  for (std::int64_t p = 0; p < count; ++p)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += number(left, at(a_is, p, i, x), bf16) * number(right, at(b_is, p, x, j), bf16);
        set_number(result, at(d_is, p, i, j), bf16, sum);
      }
  return store(d, result);
}

}  // namespace fake
