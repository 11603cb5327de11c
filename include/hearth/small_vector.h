// A vector of plain values that keeps its first N elements inside itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

namespace hearth {

template <typename T, std::size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  SmallVector() = default;
  explicit SmallVector(std::size_t count, T value = T{}) { assign(count, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <typename It>
  requires(!std::is_integral_v<It>) SmallVector(It first, It last) {
    reserve(static_cast<std::size_t>(last - first));
    for (; first != last; ++first) data_[size_++] = static_cast<T>(*first);
  }
  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      size_ = 0;
      reserve(other.size_);
      std::copy(other.begin(), other.end(), data_);
      size_ = other.size_;
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  operator std::span<const T>() const { return {data_, size_}; }

  void push_back(T value) {
    reserve(size_ + 1);
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(std::size_t count, T value = T{}) {
    reserve(count);
    for (; size_ < count; ++size_) data_[size_] = value;
    size_ = count;
  }
  void assign(std::size_t count, T value) {
    size_ = 0;
    resize(count, value);
  }
  void insert(std::size_t position, T value) {
    push_back(value);
    std::rotate(data_ + position, data_ + size_ - 1, data_ + size_);
  }
  void erase(std::size_t position) {
    for (std::size_t i = position + 1; i < size_; ++i) data_[i - 1] = data_[i];
    --size_;
  }
  void reserve(std::size_t count) {
    if (count > capacity_) grow(std::max(count, capacity_ * 2));
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  // Rare, so kept out of the code that pushes.
  [[gnu::noinline]] void grow(std::size_t capacity) {
    T* moved = new T[capacity];
    std::copy(begin(), end(), moved);
    release();
    data_ = moved;
    capacity_ = capacity;
  }
  void release() {
    if (data_ != inline_) delete[] data_;
  }
  void take(SmallVector& other) noexcept {
    size_ = other.size_;
    if (other.data_ == other.inline_) {
      std::copy(other.begin(), other.end(), inline_);
      data_ = inline_;
      capacity_ = N;
    } else {
      data_ = std::exchange(other.data_, other.inline_);
      capacity_ = std::exchange(other.capacity_, N);
    }
    other.size_ = 0;
  }

  T* data_ = inline_;
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  T inline_[N] = {};
};

}  // namespace hearth
