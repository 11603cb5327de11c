// Files for the tests of code objects: those compiled while building, the seeds of the fuzzer, and bundles
// made here.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "code_object/code_object.h"

namespace hipemu::test {

using File = std::vector<std::byte>;

inline std::optional<File> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  File file(text.size());
  std::memcpy(file.data(), text.data(), text.size());
  return file;
}

// For tests that need kernels compiled while building.
#define LOAD_INPUT(variable, name)                                                                         \
  const auto variable##_read = hipemu::test::read_file(std::string(HIPEMU_INPUTS "/") + name);             \
  if (!variable##_read) GTEST_SKIP() << name << " was not built (needs clang 19 and its offload bundler)"; \
  [[maybe_unused]] const hipemu::test::File& variable = *variable##_read

// A small code object that is always there.
inline File seed(const std::string& name) {
  const auto file = read_file(std::string(HIPEMU_SEEDS "/") + name);
  if (!file) throw std::runtime_error("missing seed " + name);
  return *file;
}

template <typename T>
void append(File& file, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  file.insert(file.end(), bytes, bytes + sizeof value);
}

inline void append(File& file, std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  file.insert(file.end(), bytes, bytes + text.size());
}

template <typename T>
File patched(File file, std::size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof value);
  return file;
}

template <typename T>
T value_at(const File& file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

// A clang offload bundle, entries aligned to 4096 as clang does.
inline File make_bundle(const std::vector<std::pair<std::string, File>>& entries) {
  std::size_t offset = 32;
  for (const auto& [id, code] : entries) offset += 24 + id.size();
  File bundle;
  append(bundle, std::string_view("__CLANG_OFFLOAD_BUNDLE__"));
  append(bundle, uint64_t(entries.size()));
  const auto aligned = [](std::size_t at) { return (at + 4095) / 4096 * 4096; };
  for (const auto& [id, code] : entries) {
    offset = aligned(offset);
    append(bundle, uint64_t(offset));
    append(bundle, uint64_t(code.size()));
    append(bundle, uint64_t(id.size()));
    append(bundle, std::string_view(id));
    offset += code.size();
  }
  for (const auto& [id, code] : entries) {
    bundle.resize(aligned(bundle.size()));
    bundle.insert(bundle.end(), code.begin(), code.end());
  }
  return bundle;
}

// The message of the CodeObjectError that `action` throws, or "" when it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const CodeObjectError& error) {
    return error.what();
  }
  return "";
}

}  // namespace hipemu::test
