#include "llm/bounded_json.h"

#include <fmt/format.h>

#include <vector>

#include "hearth/error.h"

namespace hearth::llm {

// What is nested deep is copied and destroyed by recursion, and an object compares each key with all before
// it: neither may be without end.
nlohmann::ordered_json parse_bounded(std::string_view text) {
  using Json = nlohmann::ordered_json;
  constexpr int deepest = 128, most_keys = 1024;
  std::vector<int> keys;  // of the objects around
  const auto check = [&](int depth, Json::parse_event_t event, const Json&) {
    if (depth > deepest) throw FormatError("nested too deep");
    if (event == Json::parse_event_t::object_start) keys.push_back(0);
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && ++keys.back() > most_keys)
      throw FormatError(fmt::format("an object has more than {} fields", most_keys));
    return true;
  };
  Json json = Json::parse(text, check, false);
  if (json.is_discarded()) throw FormatError("not JSON");
  return json;
}

}  // namespace hearth::llm
