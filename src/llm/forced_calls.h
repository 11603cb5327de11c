// What a model has to write when a tool must be called: one call, as JSON alone, which take_tool_calls()
// knows of every model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hearth::llm {

// A schema for Grammar::from_json_schema(): an object with the name of one of `names` and arguments as that
// tool describes them. `tools`: of a request, each with a function that has a name.
nlohmann::ordered_json forced_call_schema(const nlohmann::ordered_json& tools,
                                          const std::vector<std::string>& names);

}  // namespace hearth::llm
