// What a model thinks and says, told apart however the text is cut into pieces.
#include "llm/answer_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace hearth::llm {
namespace {

AnswerParts read(AnswerFormat format, std::string_view text, std::size_t piece, bool thinks = false) {
  AnswerReader reader(format, thinks);
  AnswerParts all;
  const auto take = [&](const AnswerParts& parts) {
    all.thoughts += parts.thoughts;
    all.text += parts.text;
    all.calls.insert(all.calls.end(), parts.calls.begin(), parts.calls.end());
  };
  for (std::size_t at = 0; at < text.size(); at += piece) take(reader.add(text.substr(at, piece)));
  take(reader.finish());
  return all;
}

struct Case {
  AnswerFormat format;
  std::string text, thoughts, said;
  std::vector<std::string> calls = {};  // name, arguments
  bool thinks = false;
};

const Case cases[] = {
    {AnswerFormat::plain, "<think>a</think> b", "", "<think>a</think> b"},
    {AnswerFormat::plain, " <|channel|>x", "", " <|channel|>x"},
    {AnswerFormat::think, "<think>\nSo. 1 < 2 </thin\n</think>\n\nYes </think>", "So. 1 < 2 </thin\n",
     "Yes </think>"},
    {AnswerFormat::think, "\n<think></think>Yes", "", "Yes"},
    {AnswerFormat::think, "So.</think>Yes", "So.", "Yes", {}, true},
    {AnswerFormat::think, "So.", "So.", "", {}, true},
    {AnswerFormat::think, "<thin air", "", "<thin air"},
    {AnswerFormat::think, "<th", "", "<th"},
    {AnswerFormat::think, "", "", ""},
    {AnswerFormat::channels,
     "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>4 <|x|>",
     "Easy.", "4 <|x|>"},
    {AnswerFormat::channels, "<|channel|>final<|message|> {\"a\": 1}\n", "", " {\"a\": 1}\n"},
    // Before a call the model may say what it will do.
    {AnswerFormat::channels,
     "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary<|message|>I "
     "look.<|end|>"
     "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"a\": "
     "1}<|call|>",
     "Look.",
     "I look.",
     {"weather", "{\"a\": 1}"}},
    {AnswerFormat::channels,
     " to=functions.clock<|channel|>commentary json<|message|>{}",
     "",
     "",
     {"clock", "{}"}},
    // What a grammar forces has no marks.
    {AnswerFormat::channels, "{\"name\": 1}", "", "{\"name\": 1}"},
    {AnswerFormat::channels, "to be", "", "to be"},
    {AnswerFormat::channels, "to=nobody", "", "to=nobody"},
    {AnswerFormat::channels, "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b",
     "a", "b"},
    {AnswerFormat::channels, "<|start|>assistant", "", "assistant"},
};

TEST(AnswerReader, TellsThoughtsTextAndCallsApart) {
  for (const Case& c : cases)
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}}) {
      const AnswerParts parts = read(c.format, c.text, piece, c.thinks);
      EXPECT_EQ(parts.thoughts, c.thoughts) << c.text << " by " << piece;
      EXPECT_EQ(parts.text, c.said) << c.text << " by " << piece;
      std::vector<std::string> calls;
      for (const ToolCall& call : parts.calls) calls.insert(calls.end(), {call.name, call.arguments});
      EXPECT_EQ(calls, c.calls) << c.text << " by " << piece;
    }
}

TEST(AnswerReader, GivesAwayWhatIsCertain) {
  AnswerReader think(AnswerFormat::think);
  EXPECT_EQ(think.add("<think>one").thoughts, "one");
  EXPECT_EQ(think.add(" two</").thoughts, " two");
  EXPECT_EQ(think.add("think>three").text, "three");
  AnswerReader channels(AnswerFormat::channels);
  channels.add("<|channel|>");
  channels.add("final");
  EXPECT_EQ(channels.add("<|message|>Hello").text, "Hello");
}

// Whatever comes: it ends, and how it is cut makes no difference.
TEST(AnswerReader, AnyMixOfMarks) {
  const std::string_view words[] = {
      "<think>",        "</think>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>",
      "to=functions.f", "analysis", "final",       "<|",          " a",        "\n"};
  std::mt19937 numbers(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint32_t count = numbers() % 12; count > 0; --count)
      text += words[numbers() % std::size(words)];
    for (const AnswerFormat format : {AnswerFormat::plain, AnswerFormat::think, AnswerFormat::channels}) {
      const AnswerParts whole = read(format, text, text.size() + 1), pieces = read(format, text, 1);
      EXPECT_EQ(whole.text, pieces.text) << text;
      EXPECT_EQ(whole.thoughts, pieces.thoughts) << text;
      EXPECT_EQ(whole.calls.size(), pieces.calls.size()) << text;
    }
  }
}

}  // namespace
}  // namespace hearth::llm
