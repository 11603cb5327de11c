// zlib, as streams of bounded memory.
#include "io/deflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hearth/error.h"

#ifdef HEARTH_HAVE_ZLIB
#include <zlib.h>
#endif

namespace hearth::io {

bool is_gzip(Bytes file) {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(Bytes file, std::string_view source) {
  constexpr std::uint64_t always_allowed = std::uint64_t{1} << 30, allowed_factor = 100;
  const auto limit = std::max<std::uint64_t>(always_allowed, file.size() * allowed_factor);
  Inflater inflater(file, Inflater::Format::gzip, source);
  std::vector<std::byte> contents(std::min<std::uint64_t>(file.size() * 4 + 4096, limit));
  std::size_t size = 0;
  for (;;) {
    size += inflater.read(std::span(contents).subspan(size));
    if (size < contents.size()) break;
    if (size >= limit)
      throw FormatError(fmt::format("[gzip] '{}': expands to more than {} bytes", source, limit));
    contents.resize(std::min<std::uint64_t>(size * 2, limit));
  }
  contents.resize(size);
  return contents;
}

#ifdef HEARTH_HAVE_ZLIB

namespace {

// zlib counts in 32 bits.
constexpr std::size_t longest_piece = std::size_t{1} << 30;

Bytef* zlib_pointer(const std::byte* data) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data));  // zlib does not write to its input
}

}  // namespace

std::uint32_t crc32(Bytes bytes, std::uint32_t crc) {
  return static_cast<std::uint32_t>(::crc32_z(crc, zlib_pointer(bytes.data()), bytes.size()));
}

struct Inflater::State {
  z_stream stream{};
  Bytes rest;
  Format format;
  std::string source;
  bool ended = false;

  [[noreturn]] void fail(const std::string& rule) const {
    throw FormatError(
        fmt::format("[{}] '{}': {}", format == Format::gzip ? "gzip" : "deflate", source, rule));
  }

  // After the end of a gzip member comes another one, or zeros as padding, or nothing.
  void next_member() {
    if (format == Format::gzip && is_gzip(rest)) {
      ::inflateReset(&stream);
      return;
    }
    const bool padding = std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
    if (format == Format::gzip && !padding) fail("garbage after the compressed data");
    ended = true;
  }
};

Inflater::Inflater(Bytes compressed, Format format, std::string_view source)
    : state_(new State{{}, compressed, format, std::string(source)}) {
  constexpr int window_bits = 15, gzip_header = 16;
  const int bits = format == Format::gzip ? window_bits + gzip_header : -window_bits;
  if (::inflateInit2(&state_->stream, bits) != Z_OK)
    throw OutOfMemory("[deflate] no memory to decompress", sizeof(z_stream), 0);
}

Inflater::~Inflater() { ::inflateEnd(&state_->stream); }

std::size_t Inflater::read(std::span<std::byte> out) {
  auto& stream = state_->stream;
  auto& rest = state_->rest;
  std::size_t filled = 0;
  while (filled < out.size() && !state_->ended) {
    const auto input = std::min(rest.size(), longest_piece);
    const auto room = std::min(out.size() - filled, longest_piece);
    stream.next_in = zlib_pointer(rest.data());
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = zlib_pointer(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    rest = rest.subspan(input - stream.avail_in);
    filled += room - stream.avail_out;
    if (result == Z_STREAM_END)
      state_->next_member();
    else if (result == Z_BUF_ERROR)
      state_->fail("the compressed data is cut short");
    else if (result != Z_OK)
      state_->fail(
          fmt::format("the compressed data is damaged: {}", stream.msg ? stream.msg : ::zError(result)));
  }
  return filled;
}

struct Deflater::State {
  z_stream stream{};
  Sink sink;

  void run(Bytes input, int flush) {
    std::array<std::byte, 65536> out;
    stream.next_in = zlib_pointer(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    do {
      stream.next_out = zlib_pointer(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      ::deflate(&stream, flush);
      sink(Bytes(out).first(out.size() - stream.avail_out));
    } while (stream.avail_out == 0);
  }
};

Deflater::Deflater(Sink sink) : state_(new State{{}, std::move(sink)}) {
  constexpr int window_bits = 15, memory_level = 8;
  if (::deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -window_bits, memory_level,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    throw OutOfMemory("[deflate] no memory to compress", sizeof(z_stream), 0);
}

Deflater::~Deflater() { ::deflateEnd(&state_->stream); }

void Deflater::write(Bytes bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), longest_piece)))
    state_->run(bytes.first(std::min(bytes.size(), longest_piece)), Z_NO_FLUSH);
}

void Deflater::finish() { state_->run({}, Z_FINISH); }

#else

std::uint32_t crc32(Bytes bytes, std::uint32_t crc) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> rows;
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      rows[i] = i;
      for (int bit = 0; bit < 8; ++bit) rows[i] = (rows[i] >> 1) ^ ((rows[i] & 1) ? 0xedb88320u : 0);
    }
    return rows;
  }();
  crc = ~crc;
  for (const auto byte : bytes) crc = table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

struct Inflater::State {};
Inflater::Inflater(Bytes, Format, std::string_view source) {
  throw FileError(
      fmt::format("[deflate] '{}' is compressed, and this build of Hearth is without zlib", source));
}
Inflater::~Inflater() = default;
std::size_t Inflater::read(std::span<std::byte>) { return 0; }

struct Deflater::State {};
Deflater::Deflater(Sink) {
  throw FileError("[deflate] cannot compress: this build of Hearth is without zlib");
}
Deflater::~Deflater() = default;
void Deflater::write(Bytes) {}
void Deflater::finish() {}

#endif

}  // namespace hearth::io
