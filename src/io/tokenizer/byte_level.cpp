// The alphabet of byte-level vocabularies.
#include "io/tokenizer/byte_level.h"

#include <array>

#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

// Printable bytes of Latin-1 stand for themselves; the others follow from U+0100 on, in order.
struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<int, 512> bytes{};  // -1: none

  constexpr Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const auto character = printable ? static_cast<char32_t>(byte) : next++;
      characters[static_cast<std::size_t>(byte)] = character;
      bytes[character] = byte;
    }
  }
};
constexpr Alphabet alphabet;

}  // namespace

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto step = read_utf8(text, i);
    if (!step.valid || step.character >= alphabet.bytes.size() || alphabet.bytes[step.character] < 0)
      return std::nullopt;
    result += static_cast<char>(alphabet.bytes[step.character]);
    i += step.size;
  }
  return result;
}

std::string to_byte_characters(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) append_utf8(result, alphabet.characters[static_cast<unsigned char>(byte)]);
  return result;
}

}  // namespace hearth::tokenizer
