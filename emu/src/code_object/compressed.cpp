// Compressed offload bundles: a header, then one zlib stream or zstd frame.
//
//   magic "CCOB", version u16, method u16 (0 zlib, 1 zstd)
//   version 1:                   uncompressed size u32, hash u64
//   version 2: total size u32,   uncompressed size u32, hash u64
//   version 3: total size u64,   uncompressed size u64, hash u64
//
// The hash is not checked: it is half an MD5, and both formats notice damage by themselves.
#include "code_object/compressed.h"

#include <optional>

#ifdef HIPEMU_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HIPEMU_HAVE_ZSTD
#include <zstd.h>
#endif

namespace hipemu {
namespace {

constexpr uint64_t max_uncompressed_bytes = uint64_t(1) << 30;
// More than a byte of either format can stand for: deflate's longest match is 258 bytes for two bits, a zstd
// block holds at most 128 KiB and takes at least four bytes. Keeps a short file from claiming a large buffer.
constexpr uint64_t max_zlib_ratio = 1100, max_zstd_ratio = 33000;
constexpr std::string_view what = "compressed bundle";

[[noreturn]] void fail(const std::string& message) {
  throw CodeObjectError("[compressed bundle] " + message);
}

enum class Method : uint16_t { zlib = 0, zstd = 1 };

struct Header {
  Method method = Method::zlib;
  uint64_t bytes = 0;                  // of the header
  std::optional<uint64_t> total_size;  // header and compressed data
  uint64_t uncompressed_size = 0;
};

Header read_header(Bytes image) {
  const auto version = read<uint16_t>(image, 4, what);
  const auto method = read<uint16_t>(image, 6, what);
  if (method > 1) fail(fmt::format("unknown compression method {}", method));
  Header header;
  header.method = Method(method);
  if (version == 1) {
    header.uncompressed_size = read<uint32_t>(image, 8, what);
    header.bytes = 20;
  } else if (version == 2) {
    header.total_size = read<uint32_t>(image, 8, what);
    header.uncompressed_size = read<uint32_t>(image, 12, what);
    header.bytes = 24;
  } else if (version == 3) {
    header.total_size = read<uint64_t>(image, 8, what);
    header.uncompressed_size = read<uint64_t>(image, 16, what);
    header.bytes = 32;
  } else {
    fail(fmt::format("version {}; versions 1, 2 and 3 can be read", version));
  }
  if (header.total_size && *header.total_size < header.bytes) fail("total size smaller than the header");
  if (header.uncompressed_size > max_uncompressed_bytes)
    fail(fmt::format("claims {} bytes, more than the {} allowed", header.uncompressed_size,
                     max_uncompressed_bytes));
  return header;
}

Bytes compressed_data(Bytes image, const Header& header) {
  const uint64_t end = header.total_size.value_or(image.size());
  return slice(image, header.bytes, end - std::min(end, header.bytes), what);
}

void check_claim(const Header& header, Bytes data) {
  const uint64_t ratio = header.method == Method::zlib ? max_zlib_ratio : max_zstd_ratio;
  if (header.uncompressed_size / ratio > data.size())
    fail(fmt::format("{} bytes cannot hold the {} claimed", data.size(), header.uncompressed_size));
}

#ifdef HIPEMU_HAVE_ZLIB
// Inflates `data` into `output` and returns how much of `data` belongs to the stream. The output must be
// filled exactly.
uint64_t inflate_into(Bytes data, std::span<std::byte> output) {
  uLongf written = output.size();
  uLong consumed = data.size();
  const int status = uncompress2(reinterpret_cast<Bytef*>(output.data()), &written,
                                 reinterpret_cast<const Bytef*>(data.data()), &consumed);
  if (status != Z_OK || written != output.size()) fail(fmt::format("damaged zlib data (status {})", status));
  return consumed;
}
#endif

#ifdef HIPEMU_HAVE_ZSTD
Bytes first_frame(Bytes data) {
  const std::size_t size = ZSTD_findFrameCompressedSize(data.data(), data.size());
  if (ZSTD_isError(size)) fail(fmt::format("damaged zstd data: {}", ZSTD_getErrorName(size)));
  return data.first(size);
}
#endif

}  // namespace

bool is_compressed_bundle(Bytes image) {
  return image.size() >= 4 && std::memcmp(image.data(), "CCOB", 4) == 0;
}

Buffer decompress_bundle(Bytes image) {
  const Header header = read_header(image);
  const Bytes data = compressed_data(image, header);
  check_claim(header, data);
  // Not filled with zeros: a false claim about the size costs address space, not memory.
  Buffer buffer{std::make_unique_for_overwrite<std::byte[]>(header.uncompressed_size),
                header.uncompressed_size};
  if (header.method == Method::zlib) {
#ifdef HIPEMU_HAVE_ZLIB
    inflate_into(data, {buffer.data.get(), buffer.size});
#else
    fail("compressed with zlib, which this build lacks");
#endif
  } else {
#ifdef HIPEMU_HAVE_ZSTD
    const Bytes frame = first_frame(data);
    const std::size_t written = ZSTD_decompress(buffer.data.get(), buffer.size, frame.data(), frame.size());
    if (ZSTD_isError(written)) fail(fmt::format("damaged zstd data: {}", ZSTD_getErrorName(written)));
    if (written != buffer.size) fail(fmt::format("{} bytes instead of the {} claimed", written, buffer.size));
#else
    fail("compressed with zstd, which this build lacks");
#endif
  }
  return buffer;
}

uint64_t compressed_bundle_size(Bytes image) {
  const Header header = read_header(image);
  if (header.total_size) return *header.total_size;
  const Bytes data = compressed_data(image, header);
  check_claim(header, data);
  if (header.method == Method::zlib) {
#ifdef HIPEMU_HAVE_ZLIB
    const auto scratch = std::make_unique_for_overwrite<std::byte[]>(header.uncompressed_size);
    return header.bytes + inflate_into(data, {scratch.get(), header.uncompressed_size});
#else
    fail("compressed with zlib, which this build lacks");
#endif
  }
#ifdef HIPEMU_HAVE_ZSTD
  return header.bytes + first_frame(data).size();
#else
  fail("compressed with zstd, which this build lacks");
#endif
}

}  // namespace hipemu
