// Deflate and gzip, through zlib. Without zlib in the build, all but crc32 and is_gzip throws FileError
// saying so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace hearth::io {

// No deflate stream expands by more than this factor.
inline constexpr std::uint64_t largest_expansion = 1032;

// CRC-32 of what `crc` is the CRC of, followed by `bytes`.
std::uint32_t crc32(Bytes bytes, std::uint32_t crc = 0);

// Expands a stream piece by piece, so that the caller decides how much memory it is worth. `compressed` must
// outlive it. Throws FormatError, naming `source`, for damaged or truncated data.
class Inflater {
 public:
  enum class Format { raw, gzip };  // gzip: one or more members, each with its checksum

  Inflater(Bytes compressed, Format format, std::string_view source);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out`; returns fewer bytes than it holds only at the end of the stream.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Compresses pieces into one raw deflate stream, passing the result on to `sink`.
class Deflater {
 public:
  using Sink = std::function<void(Bytes)>;
  explicit Deflater(Sink sink);
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void write(Bytes bytes);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_gzip(Bytes file);

// All of a gzip file. Against files made to exhaust memory, more than 1 GiB and 100 times the size of the
// file is a FormatError.
std::vector<std::byte> gunzip(Bytes file, std::string_view source);

}  // namespace hearth::io
