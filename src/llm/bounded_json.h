// JSON from outside: requests, and what models write.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace hearth::llm {

// Throws FormatError for text that is not JSON, that is nested too deep, or that has an object with too many
// fields.
nlohmann::ordered_json parse_bounded(std::string_view text);

}  // namespace hearth::llm
