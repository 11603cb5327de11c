// What both stand-ins for AMD's libraries compute with: a product by columns, on the host, of memory of the
// device. They cannot be captured, as a library may refuse to be.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace fake {

constexpr int success = 0, failed = 6;

struct Matrix {  // as stored: rows lie side by side
  std::int64_t rows, columns, leading, stride;
  bool transposed;
};

struct Hip {
  int (*copy)(void*, const void*, std::size_t, int) = nullptr;
  int (*wait)(void*) = nullptr;
  Hip() {
    void* library = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    copy = reinterpret_cast<decltype(copy)>(dlsym(library, "hipMemcpy"));
    wait = reinterpret_cast<decltype(wait)>(dlsym(library, "hipStreamSynchronize"));
  }
};

inline float number(const std::vector<unsigned char>& memory, std::int64_t index, bool bf16) {
  std::uint32_t bits = 0;
  if (bf16)
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, memory.data() + index * 2, 2);
  else
    std::memcpy(&bits, memory.data() + index * 4, 4);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// d (m, n) = op(a) (m, k) @ op(b) (k, n), all by columns.
inline int gemm(void* stream, bool bf16, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count,
                const void* a, const Matrix& a_is, const void* b, const Matrix& b_is, void* d,
                const Matrix& d_is) {
  static const Hip hip;
  constexpr int to_host = 2, to_device = 1;
  if (hip.wait == nullptr || hip.wait(stream) != 0) return failed;
  const std::size_t size = bf16 ? 2 : 4;
  const auto fetch = [&](const void* from, const Matrix& is) {
    const std::int64_t elements = (count - 1) * is.stride + (is.columns - 1) * is.leading + is.rows;
    std::vector<unsigned char> memory(static_cast<std::size_t>(elements) * size);
    hip.copy(memory.data(), from, memory.size(), to_host);
    return memory;
  };
  const auto left = fetch(a, a_is), right = fetch(b, b_is);
  const auto at = [](const Matrix& is, std::int64_t p, std::int64_t row, std::int64_t column) {
    return p * is.stride + (is.transposed ? row * is.leading + column : column * is.leading + row);
  };
  std::vector<unsigned char> result(
      static_cast<std::size_t>((count - 1) * d_is.stride + (n - 1) * d_is.leading + m) * size);
  for (std::int64_t p = 0; p < count; ++p)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += number(left, at(a_is, p, i, x), bf16) * number(right, at(b_is, p, x, j), bf16);
        std::uint32_t bits;
        std::memcpy(&bits, &sum, 4);
        if (bf16) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        std::memcpy(result.data() + static_cast<std::size_t>(at(d_is, p, i, j)) * size, &bits, size);
      }
  return hip.copy(d, result.data(), result.size(), to_device);
}

}  // namespace fake
