// JSON of files from outside.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace hearth::io {

// What is not JSON is discarded (nlohmann's is_discarded()). Throws FormatError naming the source where it is
// nested so deep that copying it, which is done by recursion, would take the whole stack.
nlohmann::json parse_json(std::string_view text, std::string_view source);

}  // namespace hearth::io
