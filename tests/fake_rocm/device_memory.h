// What the stand-ins for AMD's libraries share: they compute on the host, with memory of the device. They
// cannot be captured, as a library may refuse to be.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace fake {

using Bytes = std::vector<unsigned char>;

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
inline const Hip& hip() {
  static const Hip functions;
  return functions;
}

// False where the stream is being captured.
inline bool wait(void* stream) { return hip().wait != nullptr && hip().wait(stream) == 0; }

inline Bytes fetch(const void* from, std::int64_t elements, std::size_t size) {
  constexpr int to_host = 2;
  Bytes memory(static_cast<std::size_t>(elements) * size);
  hip().copy(memory.data(), from, memory.size(), to_host);
  return memory;
}

inline int store(void* to, const Bytes& memory) {
  constexpr int to_device = 1;
  return hip().copy(to, memory.data(), memory.size(), to_device);
}

// f32 or bf16.
inline float number(const Bytes& memory, std::int64_t index, bool bf16) {
  std::uint32_t bits = 0;
  if (bf16)
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, memory.data() + index * 2, 2);
  else
    std::memcpy(&bits, memory.data() + index * 4, 4);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline void set_number(Bytes& memory, std::int64_t index, bool bf16, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (bf16) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::size_t size = bf16 ? 2 : 4;
  std::memcpy(memory.data() + static_cast<std::size_t>(index) * size, &bits, size);
}

}  // namespace fake
