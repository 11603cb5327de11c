// xz, through liblzma.
#include "io/xz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hearth/error.h"
#ifdef HEARTH_HAVE_LZMA
#include <lzma.h>
#endif

namespace hearth::io {

bool is_xz(Bytes file) {
  constexpr std::array<unsigned char, 6> magic{0xfd, '7', 'z', 'X', 'Z', 0};
  return file.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), file.begin(),
                    [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

#ifdef HEARTH_HAVE_LZMA

namespace {

struct Decoder {
  lzma_stream stream = LZMA_STREAM_INIT;
  ~Decoder() { lzma_end(&stream); }
};

const char* reason(lzma_ret result) {
  switch (result) {
    case LZMA_BUF_ERROR:
      return "the compressed data is cut short";
    case LZMA_MEMLIMIT_ERROR:
      return "the compressed data asks for more than 256 MiB to expand it";
    case LZMA_OPTIONS_ERROR:
      return "the compressed data uses something that this liblzma does not know";
    default:
      return "the compressed data is damaged";
  }
}

}  // namespace

std::vector<std::byte> unxz(Bytes file, std::string_view source) {
  constexpr std::uint64_t memory = std::uint64_t{256} << 20;
  const std::size_t most = std::max<std::size_t>(std::size_t{1} << 30, file.size() * 100);
  Decoder decoder;
  if (lzma_stream_decoder(&decoder.stream, memory, LZMA_CONCATENATED) != LZMA_OK)
    throw OutOfMemory("[xz] no memory to expand", sizeof(lzma_stream), 0);
  decoder.stream.next_in = reinterpret_cast<const std::uint8_t*>(file.data());
  decoder.stream.avail_in = file.size();
  std::vector<std::byte> out(std::clamp<std::size_t>(file.size() * 4, 1 << 16, std::size_t{1} << 26));
  std::size_t filled = 0;
  for (;;) {
    decoder.stream.next_out = reinterpret_cast<std::uint8_t*>(out.data() + filled);
    decoder.stream.avail_out = out.size() - filled;
    const lzma_ret result = lzma_code(&decoder.stream, LZMA_FINISH);
    filled = out.size() - decoder.stream.avail_out;
    if (result == LZMA_STREAM_END) break;
    if (result != LZMA_OK) throw FormatError(fmt::format("[xz] '{}': {}", source, reason(result)));
    if (filled < out.size()) continue;
    if (filled >= most)
      throw FormatError(fmt::format("[xz] '{}' expands to more than {} bytes", source, most));
    out.resize(std::min(out.size() * 2, most));
  }
  out.resize(filled);
  return out;
}

#else

std::vector<std::byte> unxz(Bytes, std::string_view source) {
  throw FileError(fmt::format(
      "[xz] '{}' is compressed, and this build of Hearth is without liblzma; unpack it with xz -dk", source));
}

#endif

}  // namespace hearth::io
