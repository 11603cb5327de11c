// GGUF files: the metadata, vocabulary and (quantised) weights of a language model in one file, or in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

// A list of values of one type; lists may be nested. The alternatives of both variants are in the order of
// the format's type numbers, 0 to 12.
struct GgufArray {
  std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
               std::vector<float>, std::vector<bool>, std::vector<std::string>, std::vector<GgufArray>,
               std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>
      values;

  bool operator==(const GgufArray&) const = default;
};

// Strings are bytes: the format says UTF-8, and vocabularies in the wild do not keep to it.
using GgufValue =
    std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
                 bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;
using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

// A GGUF file (version 2 or 3, little-endian), mapped and checked; its tensors are made when asked for. Of a
// model in parts (name-00001-of-00003.gguf) the first is named and all are opened. May be used from several
// threads at once. Throws FileError, or FormatError with the file and the rule it breaks.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  // Of the first part.
  const std::filesystem::path& path() const;
  std::uint32_t version() const;
  const GgufMetadata& metadata() const;

  // One value of the metadata, converted: T is std::int64_t (from any integer type), double (from any
  // number), bool, std::string, or a std::vector of one of the four. get() returns nothing when there is no
  // such key, require() throws FormatError. Both throw FormatError for a value that is no T.
  template <typename T>
  std::optional<T> get(std::string_view key) const;
  template <typename T>
  T require(std::string_view key) const;

  // In the order of the file.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  // Of one tensor. Throw ValueError when there is none of that name. shape() is row-major, the reverse of
  // what is in the file. type_name() is the format's ("Q4_K"), also of types that Hearth does not have, for
  // which dtype() and tensor() throw DTypeError. bytes() throws it only for types that are not known at all.
  const Shape& shape(std::string_view name) const;
  std::string type_name(std::string_view name) const;
  DType dtype(std::string_view name) const;
  // In the mapped file: valid while this object or a copy of it lives.
  std::span<const std::byte> bytes(std::string_view name) const;
  // Uses the mapped file and keeps it.
  Tensor tensor(std::string_view name) const;
  // Gives the memory back that a tensor's bytes take; they are read from the file again when they are needed.
  void forget(std::string_view name) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// What a tensor to be written will be. GGUF has no bool and no u8.
struct GgufTensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // at most four axes
};

// Writes a file (version 3) of any size without holding it: the tensors are declared first, then written in
// that order. The file appears at `path` with commit(), or not at all. The same contents give the same bytes.
// Throws ValueError for a name or key that occurs twice or is too long, or a general.alignment that is not a
// u32 power of two; DTypeError; ShapeError.
class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
             const std::vector<GgufTensorSpec>& tensors);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // The next tensor. Its dtype and shape must be those declared.
  void write(const Tensor& tensor);
  // The next bytes of the next tensor, which may come in pieces.
  void write(std::span<const std::byte> bytes);
  // Throws ValueError when tensors are missing.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth
