// Loading named tensors into variables.
#include "hearth/state_dict.h"

#include "hearth/error.h"

namespace hearth {

namespace {
void append(std::string& message, const char* heading, const std::vector<std::string>& names) {
  if (names.empty()) return;
  message += std::string("; ") + heading + ": ";
  for (std::size_t i = 0; i < names.size(); ++i) message += (i ? ", " : "") + names[i];
}
}  // namespace

LoadReport load_state(const StateDict& variables, const StateDict& source, bool strict,
                      const std::string& operation) {
  LoadReport report;
  std::vector<std::string> mismatched;
  for (const auto& [name, variable] : variables) {
    const auto found = source.find(name);
    if (found == source.end()) {
      report.missing.push_back(name);
    } else if (found->second.shape() != variable.shape()) {
      mismatched.push_back(name + " is " + to_string(variable.shape()) + ", got " +
                           to_string(found->second.shape()));
    }
  }
  for (const auto& [name, value] : source) {
    if (!variables.contains(name)) report.unexpected.push_back(name);
  }
  if (!mismatched.empty() || (strict && !(report.missing.empty() && report.unexpected.empty()))) {
    std::string message = "[" + operation + "] the state does not fit";
    append(message, "shapes differ", mismatched);
    if (strict) {
      append(message, "missing", report.missing);
      append(message, "unexpected", report.unexpected);
    }
    throw ValueError(message);
  }
  for (const auto& [name, variable] : variables) {
    const auto found = source.find(name);
    if (found == source.end()) continue;
    Tensor handle = variable;
    handle.assign(found->second.detach().to(variable.dtype()).to(variable.device()));
  }
  return report;
}

}  // namespace hearth
