#include "llm/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/trimmed.h"
#include "hearth/error.h"
#include "llm/bounded_json.h"
#include "llm/marks.h"

namespace hearth::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view begin_mark = "<tool_call>", end_mark = "</tool_call>";
constexpr std::string_view leading_marks[] = {"<|python_tag|>", "[TOOL_CALLS]"};

std::optional<Json> parsed(std::string_view text) {
  try {
    return parse_bounded(text);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

// Of one of the tools; nothing for other JSON.
std::optional<ToolCall> call_of(const Json& json, const std::vector<std::string>& tools) {
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  ToolCall call{name->get<std::string>(), "{}"};
  if (std::find(tools.begin(), tools.end(), call.name) == tools.end()) return std::nullopt;
  if (arguments == json.end() || arguments->is_null()) return call;
  std::optional<Json> object = *arguments;
  if (arguments->is_string()) object = parsed(arguments->get<std::string>());
  if (!object || !object->is_object()) return std::nullopt;
  call.arguments = object->dump(-1, ' ', false, Json::error_handler_t::replace);
  return call;
}

std::vector<ToolCall> calls_alone(std::string_view text, const std::vector<std::string>& tools) {
  text = trimmed(text);
  for (const std::string_view mark : leading_marks)
    if (text.starts_with(mark)) text = trimmed(text.substr(mark.size()));
  if (text.empty() || (text.front() != '{' && text.front() != '[')) return {};
  const auto json = parsed(text);
  if (!json) return {};
  std::vector<ToolCall> calls;
  const auto add = [&](const Json& one) {
    auto call = call_of(one, tools);
    if (!call) return false;
    calls.push_back(std::move(*call));
    return true;
  };
  const bool all = json->is_array() ? std::all_of(json->begin(), json->end(), add) : add(*json);
  return all ? calls : std::vector<ToolCall>{};
}

}  // namespace

ToolAnswer take_tool_calls(std::string_view text, const std::vector<std::string>& tools) {
  ToolAnswer answer;
  if (auto calls = calls_alone(text, tools); !calls.empty()) {
    answer.calls = std::move(calls);
    return answer;
  }
  std::string_view rest = text;
  for (;;) {
    const std::size_t begin = rest.find(begin_mark);
    if (begin == std::string_view::npos) break;
    const std::size_t inside = begin + begin_mark.size(), end = rest.find(end_mark, inside);
    // The mark at the end may be what generation stopped at.
    const std::string_view body =
        rest.substr(inside, end == std::string_view::npos ? std::string_view::npos : end - inside);
    const auto json = parsed(trimmed(body));
    auto call = json ? call_of(*json, tools) : std::nullopt;
    const std::size_t past = end == std::string_view::npos ? rest.size() : end + end_mark.size();
    answer.text += rest.substr(0, call ? begin : past);
    if (call) answer.calls.push_back(std::move(*call));
    rest.remove_prefix(past);
  }
  answer.text += rest;
  return answer;
}

std::string ToolCallFilter::add(std::string_view piece) {
  text_ += piece;
  const std::string_view all = trimmed(text_);
  // Whether it is a call alone shows at its end.
  if (all.empty() || all.front() == '{' || all.front() == '[') return {};
  for (const std::string_view mark : leading_marks)
    if (all.substr(0, mark.size()) == mark.substr(0, all.size())) return {};
  const std::size_t mark = text_.find(begin_mark, shown_);
  const std::size_t certain = mark != std::string::npos ? mark : text_.size() - begun(text_, begin_mark);
  if (certain <= shown_) return {};
  std::string text = text_.substr(shown_, certain - shown_);
  shown_ = certain;
  return text;
}

}  // namespace hearth::llm
