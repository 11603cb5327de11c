// A conversation as the tokens that a model is to go on from.
#pragma once

#include <string>
#include <vector>

#include "hearth/chat_template.h"
#include "hearth/llm.h"

namespace hearth::llm {

// The template writes the special tokens, the first one included.
inline std::vector<TokenId> chat_tokens(const Model& model, const ChatTemplate& chat_template,
                                        const nlohmann::ordered_json& messages, ChatOptions options = {}) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto text = [&](std::optional<TokenId> token) {
    return token ? std::string(tokenizer.text(*token)) : std::string();
  };
  options.bos_token = text(tokenizer.special().bos);
  options.eos_token = text(tokenizer.special().eos);
  return tokenizer.encode(chat_template.render(messages, options),
                          {.add_special = false, .parse_special = true});
}

}  // namespace hearth::llm
