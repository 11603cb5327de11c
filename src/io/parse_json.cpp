#include "io/parse_json.h"

#include <fmt/format.h>

#include "hearth/error.h"

namespace hearth::io {

nlohmann::json parse_json(std::string_view text, std::string_view source) {
  constexpr int deepest = 128;
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > deepest) throw FormatError(fmt::format("{}: JSON that is nested too deep", source));
    return true;
  };
  return nlohmann::json::parse(text, check_depth, false);
}

}  // namespace hearth::io
