// What a model thinks and what it says, told apart in what it writes in a chat:
//   <think> thoughts </think> text                             DeepSeek R1, Qwen 3
//   <|channel|>analysis<|message|> thoughts <|end|><|start|>assistant
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|> arguments <|call|>
//   <|channel|>final<|message|> text <|return|>                GPT-OSS
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/tokenizer.h"
#include "llm/tool_calls.h"

namespace hearth::llm {

enum class AnswerFormat { plain, think, channels };

// Of a model with this vocabulary and chat template. The marks of channels are special tokens: they have to
// be part of the text (GenerateOptions::special_text).
AnswerFormat answer_format(const Tokenizer& tokenizer, std::string_view chat_template);
// Whether an answer to this prompt begins with thoughts, without a mark of its own.
bool begins_with_thoughts(const Tokenizer& tokenizer, std::span<const TokenId> prompt, AnswerFormat format);

struct AnswerParts {
  std::string thoughts, text;
  std::vector<ToolCall> calls;  // of channels; in the other formats calls are part of the text
};

// Reads an answer as it comes. A text without marks is what the model says.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerFormat format, bool begins_with_thoughts = false);
  bool wants_special_text() const { return format_ == AnswerFormat::channels; }
  // What ends the thoughts that have begun: a grammar is for what the model says after it. Empty where none
  // have.
  std::string_view end_of_thoughts() const;

  // What has become certain with this piece.
  AnswerParts add(std::string_view piece);
  // What is left at the end.
  AnswerParts finish();

 private:
  enum class State { beginning, header, thoughts, text, call };

  bool step(AnswerParts& parts, bool last);
  bool begin(bool last);
  bool read_header(bool last);
  bool read_body(AnswerParts& parts, bool last);
  void give(AnswerParts& parts, std::size_t count);

  AnswerFormat format_;
  State state_;
  std::string kept_;        // not given away yet
  ToolCall call_;           // under way
  bool after_mark_ = true;  // white space is not part of what follows
};

}  // namespace hearth::llm
