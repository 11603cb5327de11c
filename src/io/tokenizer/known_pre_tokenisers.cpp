// The pre-tokenisers of known vocabularies.
//
// They are put together from the parts that most of them share. What a pattern does not match stays as a
// piece.
#include "io/tokenizer/known_pre_tokenisers.h"

#include <algorithm>
#include <array>

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
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    "\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-"
    "\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-"
    "\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-"
    "\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-"
    "\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-"
    "\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-"
    "\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943";

std::vector<Text> deepseek_llm() {
  return {"[\r\n]",
          R"(\s?[)" + Text(cased_letters) + "]+",
          "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
          R"(\s+$)",
          bmp_cjk,
          R"(\p{N})"};
}

std::vector<Text> deepseek_v3() {
  return {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
          either({R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
                  R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)", R"( ?[\p{P}\p{S}]+[\r\n]*)", lines, space})};
}

// Words are what is between spaces and a few marks.
constexpr const char* bloom = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

constexpr const char* punctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr const char* old_punctuation = R"([\p{P}\$\+<=>\^~\|]+)";

KnownPreTokeniser make(std::string_view kind) {
  const Text gpt2 = gpt2_pattern();
  if (kind == "gpt-2") return {{gpt2}};
  if (kind == "gpt-2 nfc") return {{gpt2}, true};
  if (kind == "digits") return {{R"(\p{N})", gpt2}};
  if (kind == "digits nfc") return {{R"(\p{N})", gpt2}, true};
  if (kind == "llama-bpe") return {{cl100k_like(R"(\p{N}{1,3})")}, false, true, true};
  if (kind == "cl100k") return {{cl100k_like(R"(\p{N}{1,3})")}};
  if (kind == "single digits") return {{cl100k_like(R"(\p{N})")}};
  if (kind == "qwen2") return {{cl100k_like(R"(\p{N})")}, true};
  if (kind == "qwen35")
    return {{either({contraction, R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)", R"(\p{N})",
                     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)", lines, space})},
            true};
  if (kind == "tekken") return {{o200k_like("", R"(\p{N})")}, false, true, true};
  if (kind == "gpt-4o") return {{o200k_like(Text(contraction) + "?", R"(\p{N}{1,3})")}};
  if (kind == "deepseek-llm") return {deepseek_llm()};
  if (kind == "deepseek-coder") return {{"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", bmp_cjk, R"(\p{N})"}};
  if (kind == "deepseek-v3") return {deepseek_v3()};
  if (kind == "falcon") return {{punctuation, gpt2, "[0-9][0-9][0-9]"}};
  if (kind == "default") return {{old_punctuation, gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}};
  if (kind == "bloom") return {{bloom}};
  if (kind == "viking") return {{bloom, R"(\p{N})"}};
  if (kind == "superbpe") return {{R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}};
  if (kind == "bailingmoe")
    return {{either({"'(?i:[sdmt]|ll|ve|re)", word, R"(\p{N})", symbols, R"(\s*[\r\n])", space})}};
  return {
      {either({contraction, word, R"(\p{N})", R"( ?[^\s\p{L}\p{N}\r\n]+)", lines, space})}};  // seed-coder
}

struct Name {
  std::string_view name, kind;
};
constexpr std::array names = {Name{"default", "default"},
                              Name{"gpt-2", "gpt-2"},
                              Name{"phi-2", "gpt-2"},
                              Name{"jais", "gpt-2"},
                              Name{"trillion", "gpt-2"},
                              Name{"granite-docling", "gpt-2"},
                              Name{"exaone4", "gpt-2"},
                              Name{"gigachat", "gpt-2"},
                              Name{"mellum", "gpt-2"},
                              Name{"modern-bert", "gpt-2"},
                              Name{"roberta-bpe", "gpt-2"},
                              Name{"jina-v1-en", "gpt-2"},
                              Name{"jina-v2-code", "gpt-2"},
                              Name{"jina-v2-es", "gpt-2"},
                              Name{"jina-v2-de", "gpt-2"},
                              Name{"mpt", "gpt-2 nfc"},
                              Name{"olmo", "gpt-2 nfc"},
                              Name{"starcoder", "digits"},
                              Name{"refact", "digits"},
                              Name{"smollm", "digits"},
                              Name{"codeshell", "digits"},
                              Name{"exaone", "digits"},
                              Name{"minerva-7b", "digits"},
                              Name{"mellum2", "digits"},
                              Name{"command-r", "digits nfc"},
                              Name{"llama-bpe", "llama-bpe"},
                              Name{"llama3", "llama-bpe"},
                              Name{"llama-v3", "llama-bpe"},
                              Name{"falcon3", "llama-bpe"},
                              Name{"falcon-h1", "llama-bpe"},
                              Name{"pixtral", "llama-bpe"},
                              Name{"midm-2.0", "llama-bpe"},
                              Name{"lfm2", "llama-bpe"},
                              Name{"dbrx", "cl100k"},
                              Name{"smaug-bpe", "cl100k"},
                              Name{"chatglm-bpe", "cl100k"},
                              Name{"glm4", "cl100k"},
                              Name{"stablelm2", "single digits"},
                              Name{"hunyuan", "single digits"},
                              Name{"solar-open", "single digits"},
                              Name{"grok-2", "single digits"},
                              Name{"megrez", "single digits"},
                              Name{"qwen2", "qwen2"},
                              Name{"deepseek-r1-qwen", "qwen2"},
                              Name{"qwen35", "qwen35"},
                              Name{"tekken", "tekken"},
                              Name{"gpt-4o", "gpt-4o"},
                              Name{"llama4", "gpt-4o"},
                              Name{"kanana2", "gpt-4o"},
                              Name{"minimax-m2", "gpt-4o"},
                              Name{"deepseek-llm", "deepseek-llm"},
                              Name{"deepseek-coder", "deepseek-coder"},
                              Name{"deepseek-v3", "deepseek-v3"},
                              Name{"hunyuan-dense", "deepseek-v3"},
                              Name{"falcon", "falcon"},
                              Name{"bloom", "bloom"},
                              Name{"poro-chat", "bloom"},
                              Name{"gpt3-finnish", "bloom"},
                              Name{"viking", "viking"},
                              Name{"superbpe", "superbpe"},
                              Name{"bailingmoe", "bailingmoe"},
                              Name{"bailingmoe2", "bailingmoe"},
                              Name{"llada-moe", "bailingmoe"},
                              Name{"seed-coder", "seed-coder"}};

}  // namespace

std::string gpt2_pattern() {
  return either({"'(?:s|t|re|ve|m|ll|d)", R"( ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+)", space});
}
std::string cl100k_pattern() { return cl100k_like(R"(\p{N}{1,3})"); }
std::string o200k_pattern() { return o200k_like(Text(contraction) + "?", R"(\p{N}{1,3})"); }

std::optional<KnownPreTokeniser> find_pre_tokeniser(std::string_view name) {
  const auto found = std::ranges::find(names, name, &Name::name);
  if (found == names.end()) return std::nullopt;
  return make(found->kind);
}

}  // namespace hearth::tokenizer
