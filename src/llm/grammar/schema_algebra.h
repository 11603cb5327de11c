// Schemas put together, and told apart.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace hearth::llm::grammar {

using Schema = nlohmann::ordered_json;

// Keywords that say nothing about what is valid.
bool is_annotation(const std::string& keyword);

// What is valid by both. Throws ValueError, without a prefix, where that cannot be said as one schema of the
// known keywords.
Schema both(const Schema& a, const Schema& b);

// The types that a schema allows ("integer" is apart from "number"); all where it does not say.
std::set<std::string> types_of(const Schema& schema);

// Whether nothing can be valid by both, as far as types, constants and required properties show it.
// `resolve` follows references.
bool apart(const Schema& a, const Schema& b, const std::function<const Schema&(const Schema&)>& resolve);

}  // namespace hearth::llm::grammar
