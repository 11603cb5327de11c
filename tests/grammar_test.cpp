// Grammars: what they match, which tokens they allow, and what they refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "default_test_device.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/llm.h"
#include "llm/grammar/matcher.h"
#include "llm/grammar/token_mask.h"

namespace hearth::llm {
namespace {

using test::expect_error;

const std::filesystem::path shared = HEARTH_SHARED_DIR;

constexpr const char* arithmetic = R"gbnf(
# Expressions, with the recursion on the right.
root   ::= term (ws [-+] ws term)*
term   ::= factor (ws ("*" | "/") ws factor)*
factor ::= number
         | "(" ws root ws ")"
number ::= "-"? [0-9]{1,3} ("." [0-9]+)?
ws     ::= " "{0,2}
)gbnf";

void expect_matches(const Grammar& grammar, std::initializer_list<std::string_view> texts, bool expected) {
  for (const auto text : texts) EXPECT_EQ(grammar.matches(text), expected) << text;
}

TEST(Grammar, MatchesWholeTexts) {
  const Grammar sums = Grammar::parse(arithmetic);
  expect_matches(sums, {"1", "1 + 2", "(1.5*-2)/3", "((((7))))", "999-1"}, true);
  expect_matches(sums, {"", "1 +", "1000", "(1", "1)", "1   + 2", "1..2", "a"}, false);

  const Grammar texts = Grammar::parse("root ::= \"\\x41\\u00e4\\U0001F600\\n\\\"\" [^a-zäß]? . | (\"x\" |)");
  expect_matches(texts, {"Aä😀\n\"é", "Aä😀\n\"Z日", "x", ""}, true);
  expect_matches(texts, {"Aä😀\n\"ää", "Aä😀\n\"", "xx"}, false);

  const Grammar counts = Grammar::parse("root ::= [a]{2} \"b\"{2,} \"c\"{1,3} \"d\"{,2} \"e\"{0}");
  expect_matches(counts, {"aabbc", "aabbbbcccdd"}, true);
  expect_matches(counts, {"abbc", "aabc", "aabbcccc", "aabbcddd", "aabbce"}, false);

  // Nothing, as often as one likes.
  const Grammar nothing = Grammar::parse("root ::= (\"\"* (a | \"\")*)+ \"x\"\na ::= \"a\"? b\nb ::= \"b\"*");
  expect_matches(nothing, {"x", "abbax", "bx"}, true);
  expect_matches(nothing, {"", "c"}, false);
}

// Every code point of a class, and none beside it.
TEST(Grammar, ClassesOfCodePointsAreExact) {
  const Grammar grammar =
      Grammar::parse("root ::= [\\x7E-\\u0081\\u07FE-\\u0801\\uD7FF-\\uE001\\U0000FFFE-\\U00010001]");
  const auto inside = [](char32_t p) {
    return (p >= 0x7e && p <= 0x81) || (p >= 0x7fe && p <= 0x801) || p == 0xd7ff || p == 0xe000 ||
           p == 0xe001 || (p >= 0xfffe && p <= 0x10001);
  };
  for (const char32_t around : {0x7e, 0x81, 0x7fe, 0x801, 0xd7ff, 0xe001, 0xfffe, 0x10001})
    for (char32_t point = around - 3; point <= around + 3; ++point) {
      std::string bytes;  // written out here, surrogates and all
      if (point < 0x80)
        bytes = {static_cast<char>(point)};
      else if (point < 0x800)
        bytes = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
      else if (point < 0x10000)
        bytes = {static_cast<char>(0xe0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 63)),
                 static_cast<char>(0x80 | (point & 63))};
      else
        bytes = {static_cast<char>(0xf0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 63)),
                 static_cast<char>(0x80 | (point >> 6 & 63)), static_cast<char>(0x80 | (point & 63))};
      EXPECT_EQ(grammar.matches(bytes), inside(point)) << std::hex << static_cast<unsigned>(point);
    }
  // Overlong, cut off, surrogates: no text.
  const Grammar any = Grammar::parse("root ::= .+");
  expect_matches(
      any, {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xc3", "a\x80"}, false);
}

TEST(Grammar, WrongGrammarsAreRefused) {
  const auto refused = [](std::string_view text, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(std::string(text.substr(0, 60)));
    expect_error<FormatError>([&] { Grammar::parse(text); }, parts);
  };
  refused("", {"[grammar]", "'root'"});
  refused("a ::= \"x\"", {"'root'"});
  refused("root ::= b", {"line 1, column 10", "no rule 'b'"});
  refused("root ::= \"a\"\nroot ::= \"b\"", {"line 2, column 1", "already"});
  refused("root = \"a\"", {"line 1", "::="});
  refused("root ::= \"a", {"not closed"});
  refused("root ::= [a", {"not closed"});
  refused("root ::= [b-a]", {"before it begins"});
  refused("root ::= []", {"no character"});
  refused("root ::= (\"a\"", {"expected )"});
  refused("root ::= \"a\")", {"end of the rule"});
  refused("root ::= *", {"expected a text"});
  refused("root ::= \"a\"{3,2}", {"below the least"});
  refused("root ::= \"a\"{x}", {"number of times"});
  refused("root ::= \"a\"{99999999999}", {"more than"});
  refused("root ::= \"\\q\"", {"cannot follow"});
  refused("root ::= \"\\ud800\"", {"no code point"});
  refused("root ::= \"\\xZZ\"", {"hexadecimal"});
  refused("root ::= \"\xff\"", {"UTF-8"});
  refused("root ::= root \"a\" | \"a\"", {"begins with itself", "root -> root"});
  refused("root ::= a\na ::= b? c\nb ::= \"b\"\nc ::= a \"x\" | \"c\"",
          {"begins with itself", "a -> c -> a"});
  refused("root ::= \"a\" root", {"'root' never ends"});
  refused("root ::= \"a\"{1000}{1000}{1000}", {"too large"});
  refused("root ::= \"\"{1000000}{1000000}", {"too large"});
  refused("root ::= (\"a\" | b){500000}\nb ::= \"b\"", {"too large"});
  std::string same = "\"a\"";
  for (int i = 0; i < 2000; ++i) same += "|\"a\"";
  refused("root ::= (" + same + "){100000}", {"too large", "transitions"});
  refused("root ::= " + std::string(100000, '(') + "\"a\"", {"nested"});
  refused("root ::= \"a\"" + std::string(100000, '*'), {"repetition"});
}

// Many rules, each beginning with the next: neither time nor stack.
TEST(Grammar, LongChainsOfRulesAreFine) {
  std::string chain = "root ::= a0\n", circle;
  for (int i = 0; i < 20000; ++i) chain += fmt::format("a{} ::= a{}\n", i, i + 1);
  circle = chain + "a20000 ::= a0 | \"x\"\n";
  chain += "a20000 ::= \"x\"\n";
  expect_error<FormatError>([&] { Grammar::parse(circle); }, {"begins with itself"});
  EXPECT_TRUE(Grammar::parse("root ::= \"(\" root \")\" | \"x\"")
                  .matches(std::string(5000, '(') + "x" + std::string(5000, ')')));
  // 20001 rules are in the closure of the start: more ways than are followed.
  expect_error<Error>([&] { Grammar::parse(chain).matches("x"); }, {"ways to read"});
}

TEST(Grammar, AmbiguityIsBounded) {
  const Grammar doubling = Grammar::parse("root ::= \"a\" root \"x\" | \"a\" root \"y\" | \"a\"");
  EXPECT_TRUE(doubling.matches("aaaxy"));
  expect_error<Error>([&] { doubling.matches(std::string(60, 'a')); }, {"too ambiguous"});
}

TEST(Grammar, SchemasAgreeWithTheReference) {
  const auto golden = nlohmann::ordered_json::parse(std::ifstream(HEARTH_GOLDEN_DIR "/json_schema.json"));
  // Valid, but not written by us: 1.0 for an integer, spaces within constants, and by some schemas more.
  const std::set<std::string> narrow{"required only", "no type"},
      numbers{"any", "true", "number", "share", "signed"};
  const auto written = [&](const std::string& name, const std::string& text, bool matches) {
    if (narrow.contains(name)) return matches;
    if (text.ends_with(".0")) return numbers.contains(name);
    return !(name == "enum" && text.find(' ') != text.npos);
  };
  int matched = 0;
  for (const auto& item : golden["schemas"]) {
    const std::string name = item["name"];
    const Grammar grammar = Grammar::from_json_schema(item["schema"].dump());
    const std::string valid = item["valid"];
    for (std::size_t i = 0; i < valid.size(); ++i) {
      const std::string text = golden["texts"][i];
      const bool matches = grammar.matches(text);
      matched += matches;
      EXPECT_EQ(matches, valid[i] == '1' && written(name, text, matches)) << name << ": " << text;
    }
  }
  EXPECT_GT(matched, 300);
}

// What generators of schemas add without its being a condition, or as one that always holds.
TEST(Grammar, SchemasMayHaveExtensions) {
  EXPECT_TRUE(Grammar::from_json_schema(R"({"type": "integer", "x-order": 3})").matches("12"));
  EXPECT_TRUE(Grammar::from_json_schema(R"({"type": "string", "nullable": true})").matches("\"a\""));
  for (const char* names : {"{}", "true", R"({"type": "string"})"}) {
    const std::string schema = fmt::format(
        R"({{"type": "object", "propertyNames": {}, "additionalProperties": {{"type": "integer"}}}})", names);
    EXPECT_TRUE(Grammar::from_json_schema(schema).matches(R"({"a": 1})")) << schema;
  }
}

// JavaScript's largest safe integers, which its generators of schemas write down for every integer.
TEST(Grammar, LimitsOfIntegersAreExact) {
  const auto matches = [](std::string_view limits, std::string_view number) {
    return Grammar::from_json_schema(fmt::format(R"({{"type": "integer", {}}})", limits)).matches(number);
  };
  const char* safe = R"("minimum": -9007199254740991, "maximum": 9007199254740991)";
  for (const char* sign : {"", "-"}) {
    EXPECT_TRUE(matches(safe, std::string(sign) + "9007199254740991"));
    EXPECT_FALSE(matches(safe, std::string(sign) + "9007199254740992"));
  }
  const char* odd = R"("maximum": 9007199254740993)";  // no double
  EXPECT_TRUE(matches(odd, "9007199254740993"));
  EXPECT_FALSE(matches(odd, "9007199254740994"));
  const char* open = R"("exclusiveMinimum": 9999999999999997)";
  EXPECT_FALSE(matches(open, "9999999999999997"));
  EXPECT_TRUE(matches(open, "9999999999999998"));
  EXPECT_TRUE(matches(R"("maximum": 18446744073709551615)", "9999999999999999"));
  EXPECT_TRUE(matches(R"("maximum": 1e300)", "9999999999999999"));
}

TEST(Grammar, ReferencesMayBeEscaped) {
  const auto matches = [](std::string_view name, std::string_view reference) {
    return Grammar::from_json_schema(
               fmt::format(R"({{"$defs": {{"{}": {{"const": 1}}}}, "$ref": "#/$defs/{}"}})", name, reference))
        .matches("1");
  };
  EXPECT_TRUE(matches("Partial<A>", "Partial%3CA%3E"));
  EXPECT_TRUE(matches("a b/c~d", "a%20b~1c~0d"));
  EXPECT_TRUE(matches("\u00e9", "%C3%A9"));
  // As it is, from those who do not escape.
  EXPECT_TRUE(matches("Partial<A>", "Partial<A>"));
  EXPECT_TRUE(matches("100%", "100%"));
  EXPECT_TRUE(matches("a%20b", "a%20b"));
}

TEST(Grammar, SchemasThatAreNotKnownAreRefused) {
  const auto refused = [](std::string_view schema, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(std::string(schema.substr(0, 80)));
    expect_error<FormatError>([&] { Grammar::from_json_schema(schema); }, parts);
  };
  refused("{", {"[json schema]", "not JSON"});
  refused("3", {"#", "object"});
  refused("false", {"nothing is valid"});
  refused(R"({"type": "float"})", {"\"float\" is no type"});
  refused(R"({"type": "object", "properties": {"a": {"not": {}}}})",
          {"#/properties/a", "'not' is not known"});
  refused(R"({"type": "array", "uniqueItems": true})", {"uniqueItems"});
  refused(R"({"type": "object", "propertyNames": {"maxLength": 3}})", {"propertyNames"});
  refused(R"({"type": "string", "pattern": "(?=a)b"})", {"pattern", "(?"});
  refused(R"({"type": "string", "pattern": "(a"})", {"expected )"});
  refused(R"({"type": "string", "pattern": "a**"})", {"repetition"});
  refused(R"({"type": "string", "pattern": "\\bx"})", {"\\b"});
  refused(R"({"type": "string", "pattern": "a", "minLength": 3})", {"minLength"});
  refused(R"({"type": "string", "minLength": 5, "maxLength": 4})", {"below"});
  refused(R"({"type": "string", "maxLength": 1e9})", {"maxLength"});
  refused(R"({"type": "string", "maxLength": 100000000})", {"maxLength"});
  refused(R"({"type": "integer", "minimum": 5, "maximum": 4})", {"no number"});
  refused(R"({"type": "number", "minimum": 0.5})", {"whole"});
  refused(R"({"type": "number", "multipleOf": 3})", {"multipleOf"});
  refused(R"({"$ref": "http://example.com/x"})", {"within the schema"});
  refused(R"({"$ref": "#/nowhere"})", {"no such place"});
  refused(R"({"$ref": "#"})", {"never ends"});
  refused(R"({"enum": []})", {"nothing is valid"});
  refused(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", {"oneOf", "at once"});
  refused(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "object"})", {"json schema"});
  refused(R"({"allOf": [{"type": "string"}, {"type": "null"}]})", {"no type"});
  refused(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", {"never ends"});
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"items":)";
  refused(deep, {"nested"});
}

// Many references to one large schema: what is put together is counted before it grows.
TEST(Grammar, SchemasThatTakeTooLongToPutTogetherAreRefused) {
  nlohmann::ordered_json large, all = nlohmann::ordered_json::array();
  for (int i = 0; i < 3000; ++i) large["properties"][fmt::format("p{}", i)] = {{"type", "string"}};
  for (int i = 0; i < 5000; ++i) all.push_back({{"$ref", "#/$defs/large"}});
  const nlohmann::ordered_json schema{{"$defs", {{"large", large}}}, {"allOf", all}};
  expect_error<FormatError>([&] { Grammar::from_json_schema(schema.dump()); },
                            {"schemas of more than 262144 values have to be put together"});
}

// The tokens that are allowed are those that stepping through their bytes allows.
class Masks : public testing::Test {
 protected:
  static void check(const Tokenizer& tokenizer, const Grammar& grammar, int texts, int most_tokens) {
    grammar::TokenMask mask(grammar, tokenizer);
    std::mt19937 random(5);
    for (int t = 0; t < texts; ++t) {
      mask.restart();
      grammar::Matcher matcher(grammar.automaton());
      grammar::Place place = matcher.start();
      for (int step = 0; step < most_tokens && !mask.complete(); ++step) {
        std::vector<float> scores(static_cast<std::size_t>(tokenizer.size()) + 3, 1.0f);
        mask.apply(scores);
        std::vector<TokenId> allowed;
        for (TokenId token = 0; token < static_cast<TokenId>(scores.size()); ++token) {
          bool expected = false;
          if (token < tokenizer.size()) {
            if (tokenizer.ends_generation(token))
              expected = matcher.may_end(place);
            else if (!tokenizer.is_special(token) && !tokenizer.bytes(token).empty())
              expected = matcher.step(place, tokenizer.bytes(token)) != grammar::nowhere;
          }
          ASSERT_EQ(scores[static_cast<std::size_t>(token)] == 1.0f, expected)
              << "token " << token << " '" << tokenizer.bytes(token) << "' in step " << step;
          if (expected && !tokenizer.ends_generation(token)) allowed.push_back(token);
        }
        if (allowed.empty()) break;
        const TokenId token = allowed[random() % allowed.size()];
        mask.push(token);
        place = matcher.step(place, tokenizer.bytes(token));
      }
    }
  }
};

constexpr const char* person =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 3,
       "maximum": 99}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}}}, "required": ["name"]})";

TEST_F(Masks, AreThoseOfBruteForce) {
  const auto path = shared / "models" / "stories260K" / "stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Tokenizer tokenizer = Tokenizer::load(path);
  for (const char* schema : {"{}", person}) check(tokenizer, Grammar::from_json_schema(schema), 20, 60);
  check(tokenizer, Grammar::parse(arithmetic), 20, 40);
  check(tokenizer, Grammar::parse("root ::= [^x]{3,5} (\"ab\" | \"abc\" \"d\"?)* .?"), 20, 40);
}

TEST_F(Masks, OfALargeVocabulary) {
  const auto path = shared / "tokenizers" / "vectors" / "ggml-vocab-gpt-2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Tokenizer tokenizer = Tokenizer::load(path);
  check(tokenizer, Grammar::from_json_schema(person), 3, 12);
}

// Each of the 4500 ways to read a letter would be tried with every token.
TEST(Grammar, WorkForATokenIsBounded) {
  const auto path = shared / "tokenizers" / "vectors" / "ggml-vocab-gpt-2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Tokenizer tokenizer = Tokenizer::load(path);
  std::vector<float> scores(static_cast<std::size_t>(tokenizer.size()));
  grammar::TokenMask slow(Grammar::parse("root ::= ([a-z]?){4500}"), tokenizer);
  expect_error<Error>([&] { slow.apply(scores); }, {"too many ways to go on"});
  // As many ways that lead to few tokens each are fine.
  std::string texts = "\"item 0\"";
  for (int i = 1; i < 4500; ++i) texts += fmt::format(" | \"item {}\"", i);
  grammar::TokenMask mask(Grammar::parse("root ::= " + texts), tokenizer);
  for (const char* token : {"item", "\u0120"}) {
    EXPECT_NO_THROW(mask.apply(scores));
    mask.push(*tokenizer.find(token));
  }
  EXPECT_NO_THROW(mask.apply(scores));
}

TEST(Grammar, DeadEndsAreSaid) {
  const auto path = shared / "models" / "stories260K" / "stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Tokenizer tokenizer = Tokenizer::load(path);
  grammar::TokenMask mask(Grammar::parse("root ::= \"ab\" \"c\""), tokenizer);
  expect_error<Error>([&] { mask.push(*tokenizer.find("x")); }, {"may not come"});
  std::vector<float> few(1, 1.0f);  // of fewer tokens than the vocabulary has
  EXPECT_NO_THROW(mask.apply(few));
  EXPECT_LT(few[0], 0);
}

// Whatever the model likes to say, at any temperature, it is JSON by the schema.
TEST(Grammar, ARealModelKeepsToIt) {
  const auto path = shared / "models" / "stories260K" / "stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Model model = Model::load(path);
  Session session(model);
  const auto prompt = model.tokenizer().encode("Once upon a time");
  const Grammar schema = Grammar::from_json_schema(person), any = Grammar::from_json_schema("{}"),
                sums = Grammar::parse(arithmetic);
  const bool emulated = test::is_emulated();
  int whole = 0;
  for (std::uint64_t seed = 1; seed <= (emulated ? 2 : 12); ++seed) {
    const SamplingOptions sampling{
        .temperature = 0.4 * static_cast<double>(seed), .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
    const auto text_of = [&](const Grammar& grammar) {
      const auto result = session.generate(prompt, {.most_tokens = emulated ? 40 : 250,
                                                    .sampling = sampling,
                                                    .ignore_end = seed % 2 == 0,
                                                    .grammar = grammar});
      whole += result.reason == FinishReason::end;
      EXPECT_TRUE(result.reason != FinishReason::end || grammar.matches(result.text)) << result.text;
      return result.reason == FinishReason::end ? result.text : "";
    };
    if (const std::string text = text_of(schema); !text.empty()) {
      const auto json = nlohmann::json::parse(text);
      EXPECT_TRUE(json.at("name").is_string());
      const int age = json.value("age", 3);
      EXPECT_TRUE(age >= 3 && age <= 99) << text;
    }
    const std::string text = text_of(any);
    EXPECT_TRUE(text.empty() || nlohmann::json::accept(text)) << text;
    text_of(sums);
  }
  EXPECT_GE(whole, emulated ? 1 : 18);
}

}  // namespace
}  // namespace hearth::llm
