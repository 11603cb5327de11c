// A conversation as the tokens that a model is to go on from.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hearth/chat_template.h"
#include "hearth/error.h"
#include "hearth/llm.h"

namespace hearth::llm {

// The template writes the special tokens, the first one included. Where `begun`, the last message is one that
// the model is to go on with, and has a text; throws ValueError where the template leaves it out.
inline std::vector<TokenId> chat_tokens(const Model& model, const ChatTemplate& chat_template,
                                        nlohmann::ordered_json messages, ChatOptions options = {},
                                        bool begun = false) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto text = [&](std::optional<TokenId> token) {
    return token ? std::string(tokenizer.text(*token)) : std::string();
  };
  options.bos_token = text(tokenizer.special().bos);
  options.eos_token = text(tokenizer.special().eos);
  constexpr std::string_view mark = "<|here the message ends|>";  // then what the template adds to it
  if (begun) {
    options.add_generation_prompt = false;
    nlohmann::ordered_json& content = messages.back()["content"];
    content = content.get<std::string>() + std::string(mark);
  }
  std::string prompt = chat_template.render(messages, options);
  if (begun) {
    const auto end = prompt.rfind(mark);
    if (end == prompt.npos) throw ValueError("the chat template leaves out the message to go on with");
    prompt.resize(end);
  }
  return tokenizer.encode(prompt, {.add_special = false, .parse_special = true});
}

}  // namespace hearth::llm
