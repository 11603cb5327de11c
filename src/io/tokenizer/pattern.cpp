// Regular expressions, compiled to machine code by PCRE2.
#include "io/tokenizer/pattern.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "io/bytes.h"

#ifdef HEARTH_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace hearth::tokenizer {

#ifdef HEARTH_HAVE_PCRE2

namespace {

std::string message_of(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

// PCRE2's \s has U+180E too, which Unicode no longer counts as white space; here it becomes Unicode's own
// list.
std::string with_unicode_spaces(std::string_view pattern) {
  constexpr std::string_view spaces =
      R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      result += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's')
      result += in_class ? std::string(spaces) : fmt::format("[{}]", spaces);
    else if (escaped == 'S' && !in_class)
      result += fmt::format("[^{}]", spaces);
    else
      result += pattern.substr(i - 1, 2);
  }
  return result;
}

}  // namespace

struct Pattern::Code {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, &pcre2_code_free};
  bool machine_code = false;
};

Pattern::Pattern(const std::string& text, std::string_view source) {
  // PCRE2 has no intersections of classes and would read them as something else.
  if (text.find("&&[") != text.npos)
    throw FormatError(
        fmt::format("[tokenizer] '{}': && in the pattern {} is not supported", source, io::show(text)));
  // The patterns of tokenizer.json are Ruby's, in which ^ and $ are about lines.
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  const auto pattern = with_unicode_spaces(text);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                 &error, &offset, nullptr));
  if (!code->code)
    throw FormatError(fmt::format("[tokenizer] '{}': the pattern {}: {} at its byte {}", source,
                                  io::show(text), message_of(error), offset));
  code->machine_code = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  code_ = std::move(code);
}

struct Pattern::Finder::State {
  std::shared_ptr<const Code> code;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match{nullptr, &pcre2_match_data_free};
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context{
      nullptr, &pcre2_match_context_free};
  std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)> stack{nullptr, &pcre2_jit_stack_free};

  int run(std::string_view text, std::size_t from) const {
    const auto function = code->machine_code ? &pcre2_jit_match : &pcre2_match;
    return function(code->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                    code->machine_code ? 0 : PCRE2_NO_UTF_CHECK, match.get(), context.get());
  }

  // Few texts need more than the 32 KB that PCRE2 has by itself.
  void grow_stack() {
    stack.reset(pcre2_jit_stack_create(std::size_t{64} << 10, std::size_t{64} << 20, nullptr));
    context.reset(pcre2_match_context_create(nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Pattern::Finder::Finder(const Pattern& pattern) : state_(std::make_unique<State>()) {
  state_->code = pattern.code_;
  state_->match.reset(pcre2_match_data_create_from_pattern(pattern.code_->code.get(), nullptr));
}

Pattern::Finder::~Finder() = default;

std::optional<Match> Pattern::Finder::find(std::string_view text, std::size_t from) {
  int result = state_->run(text, from);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !state_->stack) {
    state_->grow_stack();
    result = state_->run(text, from);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) throw Error(fmt::format("[tokenizer] matching the pattern failed: {}", message_of(result)));
  const auto* offsets = pcre2_get_ovector_pointer(state_->match.get());
  return Match{offsets[0], offsets[1]};
}

#else

struct Pattern::Code {};
struct Pattern::Finder::State {};

Pattern::Pattern(const std::string&, std::string_view source) {
  throw Error(
      fmt::format("[tokenizer] '{}' needs PCRE2, which this build does not have (libpcre2-dev)", source));
}
Pattern::Finder::Finder(const Pattern&) {}
Pattern::Finder::~Finder() = default;
std::optional<Match> Pattern::Finder::find(std::string_view, std::size_t) { return std::nullopt; }

#endif

}  // namespace hearth::tokenizer
