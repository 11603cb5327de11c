// Tokens with which models say that they are done, by the names that are in use.
#pragma once

#include <array>
#include <string_view>

namespace hearth::tokenizer {

inline constexpr std::array<std::string_view, 12> end_names = {
    "<|eot_id|>",      "<|eom_id|>",         "<|im_end|>",      "<end_of_turn>",
    "<|end_of_turn|>", "<|endoftext|>",      "<|end_of_text|>", "<|return|>",
    "<|call|>",        "<end_of_utterance>", "<EOT>",           "<\uff5cend\u2581of\u2581sentence\uff5c>"};

}  // namespace hearth::tokenizer
