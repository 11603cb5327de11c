// The pre-tokenisers of known vocabularies.
//
// They are put together from the parts that most of them share. What a pattern does not match stays as a
// piece.
#include "io/tokenizer/known_pre_tokenisers.h"

#include <algorithm>
#include <iterator>

namespace hearth::tokenizer {
namespace {

using Text = std::string;

constexpr const char* contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
constexpr const char* word = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
constexpr const char* symbols = R"( ?[^\s\p{L}\p{N}]+[\r\n]*)";
constexpr const char* space = R"(\s+(?!\S)|\s+)";  // of several spaces, the last goes with the next word
constexpr const char* lines = R"(\s*[\r\n]+)";
constexpr const char* bmp_cjk =
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";  // as DeepSeek has it: the ranges overlap

Text either(std::initializer_list<Text> alternatives) {
  Text result;
  for (const auto& alternative : alternatives) result += (result.empty() ? "" : "|") + alternative;
  return result;
}

// The family that began with cl100k: `digits` is how numbers are cut.
Text cl100k_like(const Text& digits) { return either({contraction, word, digits, symbols, lines, space}); }

// Words in which upper case is followed by lower case, or all of upper case; as of o200k.
Text cased_words(const Text& ending) {
  const Text lead = R"([^\r\n\p{L}\p{N}]?)", upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
             lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return either({lead + upper + "*" + lower + "+" + ending, lead + upper + "+" + lower + "*" + ending});
}
Text o200k_like(const Text& ending, const Text& digits) {
  return either({cased_words(ending), digits, R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)", lines, space});
}

// Letters with upper and lower case, as DeepSeek's first model lists them.
constexpr const char* cased_letters =
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943";

// Words are what is between spaces and a few marks.
constexpr const char* between_marks = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

// ---- the kinds, as far as they differ

using Known = KnownPreTokeniser;

Known gpt2() { return {{gpt2_pattern()}}; }
Known gpt2_nfc() { return {{gpt2_pattern()}, true}; }
Known gpt2_digits() { return {{R"(\p{N})", gpt2_pattern()}}; }  // each digit a piece
Known gpt2_digits_nfc() { return {{R"(\p{N})", gpt2_pattern()}, true}; }
Known cl100k() { return {{cl100k_pattern()}}; }
Known cl100k_digits() { return {{cl100k_like(R"(\p{N})")}}; }
Known llama_3() { return {{cl100k_pattern()}, false, true, true}; }
Known qwen_2() { return {{cl100k_like(R"(\p{N})")}, true}; }
Known qwen_35() {
  return {{either({contraction, R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)", R"(\p{N})",
                   R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)", lines, space})},
          true};
}
Known o200k() { return {{o200k_pattern()}}; }
Known tekken() { return {{o200k_like("", R"(\p{N})")}, false, true, true}; }
Known deepseek_coder() { return {{"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", bmp_cjk, R"(\p{N})"}}; }
Known deepseek_llm() {
  return {{"[\r\n]", R"(\s?[)" + Text(cased_letters) + "]+",
           "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", R"(\s+$)", bmp_cjk,
           R"(\p{N})"}};
}
Known deepseek_3() {
  return {{R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
           either({R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
                   R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)", R"( ?[\p{P}\p{S}]+[\r\n]*)", lines, space})}};
}
Known falcon() { return {{R"([\p{P}\$\+<=>\^~\|`]+)", gpt2_pattern(), "[0-9][0-9][0-9]"}}; }
Known unnamed() { return {{R"([\p{P}\$\+<=>\^~\|]+)", gpt2_pattern(), R"(\p{N}+)", "[0-9][0-9][0-9]"}}; }
Known bloom() { return {{between_marks}}; }
Known viking() { return {{between_marks, R"(\p{N})"}}; }
Known superbpe() { return {{R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}}; }
Known bailing() {
  return {{either({"'(?i:[sdmt]|ll|ve|re)", word, R"(\p{N})", symbols, R"(\s*[\r\n])", space})}};
}
Known seed_coder() {
  return {{either({contraction, word, R"(\p{N})", R"( ?[^\s\p{L}\p{N}\r\n]+)", lines, space})}};
}

struct Name {
  std::string_view name;
  Known (*make)();
};
constexpr Name names[] = {{"default", unnamed},
                          {"gpt-2", gpt2},
                          {"phi-2", gpt2},
                          {"jais", gpt2},
                          {"trillion", gpt2},
                          {"granite-docling", gpt2},
                          {"exaone4", gpt2},
                          {"gigachat", gpt2},
                          {"mellum", gpt2},
                          {"modern-bert", gpt2},
                          {"roberta-bpe", gpt2},
                          {"jina-v1-en", gpt2},
                          {"jina-v2-code", gpt2},
                          {"jina-v2-es", gpt2},
                          {"jina-v2-de", gpt2},
                          {"mpt", gpt2_nfc},
                          {"olmo", gpt2_nfc},
                          {"starcoder", gpt2_digits},
                          {"refact", gpt2_digits},
                          {"smollm", gpt2_digits},
                          {"codeshell", gpt2_digits},
                          {"exaone", gpt2_digits},
                          {"minerva-7b", gpt2_digits},
                          {"mellum2", gpt2_digits},
                          {"command-r", gpt2_digits_nfc},
                          {"llama-bpe", llama_3},
                          {"llama3", llama_3},
                          {"llama-v3", llama_3},
                          {"falcon3", llama_3},
                          {"falcon-h1", llama_3},
                          {"pixtral", llama_3},
                          {"midm-2.0", llama_3},
                          {"lfm2", llama_3},
                          {"dbrx", cl100k},
                          {"smaug-bpe", cl100k},
                          {"chatglm-bpe", cl100k},
                          {"glm4", cl100k},
                          {"stablelm2", cl100k_digits},
                          {"hunyuan", cl100k_digits},
                          {"solar-open", cl100k_digits},
                          {"grok-2", cl100k_digits},
                          {"megrez", cl100k_digits},
                          {"qwen2", qwen_2},
                          {"deepseek-r1-qwen", qwen_2},
                          {"qwen35", qwen_35},
                          {"tekken", tekken},
                          {"gpt-4o", o200k},
                          {"llama4", o200k},
                          {"kanana2", o200k},
                          {"minimax-m2", o200k},
                          {"deepseek-llm", deepseek_llm},
                          {"deepseek-coder", deepseek_coder},
                          {"deepseek-v3", deepseek_3},
                          {"hunyuan-dense", deepseek_3},
                          {"falcon", falcon},
                          {"bloom", bloom},
                          {"poro-chat", bloom},
                          {"gpt3-finnish", bloom},
                          {"viking", viking},
                          {"superbpe", superbpe},
                          {"bailingmoe", bailing},
                          {"bailingmoe2", bailing},
                          {"llada-moe", bailing},
                          {"seed-coder", seed_coder}};

}  // namespace

std::string gpt2_pattern() {
  return either({"'(?:s|t|re|ve|m|ll|d)", R"( ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+)", space});
}
std::string cl100k_pattern() { return cl100k_like(R"(\p{N}{1,3})"); }
std::string o200k_pattern() { return o200k_like(Text(contraction) + "?", R"(\p{N}{1,3})"); }

std::optional<KnownPreTokeniser> find_pre_tokeniser(std::string_view name) {
  const auto found = std::ranges::find(names, name, &Name::name);
  if (found == std::end(names)) return std::nullopt;
  return found->make();
}

std::optional<std::string_view> pre_tokeniser_name(const KnownPreTokeniser& pre) {
  const auto found = std::ranges::find_if(names, [&](const Name& name) {
    const auto known = name.make();
    return known.patterns == pre.patterns && known.nfc == pre.nfc &&
           known.whole_pieces_first == pre.whole_pieces_first;
  });
  return found == std::end(names) ? std::nullopt : std::optional(found->name);
}

}  // namespace hearth::tokenizer
