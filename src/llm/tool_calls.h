// Calls of tools in what a model writes, which each kind of model does in its own way:
//   <tool_call>{"name": ..., "arguments": {...}}</tool_call>   Qwen, Hermes; several, and text around them
//   {"name": ..., "parameters": {...}}                         Llama 3; nothing else
//   [{"name": ..., "arguments": {...}}, ...]                   Mistral; nothing else
// Marks before the last two (<|python_tag|>, [TOOL_CALLS]) may or may not be part of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::llm {

struct ToolCall {
  std::string name, arguments;  // arguments: an object of JSON
};

struct ToolAnswer {
  std::string text;  // what is around the calls
  std::vector<ToolCall> calls;
};

// `tools`: the names of those there are. Text that is no call stays text, and so does JSON that names none of
// them.
ToolAnswer take_tool_calls(std::string_view text, const std::vector<std::string>& tools);

// Holds back what may become a call, of a text that comes in pieces.
class ToolCallFilter {
 public:
  // What of the text so far is certain to be no call, from the end of what was returned before.
  std::string add(std::string_view piece);
  // Where what was returned ends.
  std::size_t shown() const { return shown_; }

 private:
  std::string text_;
  std::size_t shown_ = 0;
};

}  // namespace hearth::llm
