// Options that Python gives by name, in a dictionary.
#pragma once

#include <algorithm>

#include "casters.h"

namespace hearth::python {

class Options {
 public:
  // `function`: what errors are said to come from.
  Options(const nb::dict& given, std::string function) : given_(given), function_(std::move(function)) {}

  // `member` becomes the option of that name, if it was given. Throws a TypeError for one of another type.
  template <typename T>
  void read(const char* name, T& member) {
    known_.emplace_back(name);
    if (!given_.contains(name)) return;
    const nb::object value = given_[name];
    if (!nb::try_cast(value, member))
      throw nb::type_error(("[" + function_ + "] " + name + " cannot be " + nb::repr(value).c_str()).c_str());
  }
  template <typename T>
  void read(const char* name, T& member, std::initializer_list<std::pair<const char*, T>> words) {
    std::string word;
    read(name, word);
    if (!given_.contains(name)) return;
    for (const auto& [known, value] : words)
      if (word == known) {
        member = value;
        return;
      }
    throw ValueError("[" + function_ + "] " + name + " cannot be '" + word + "'");
  }

  // Throws ValueError for a name that was not read.
  void finish() const {
    for (const auto [key, value] : given_) {
      const std::string name = nb::str(key).c_str();
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      std::string names;
      for (const std::string& known : known_) names += (names.empty() ? "" : ", ") + known;
      throw ValueError("[" + function_ + "] there is no option '" + name + "'; there are " + names);
    }
  }

 private:
  const nb::dict& given_;
  std::string function_;
  std::vector<std::string> known_;
};

}  // namespace hearth::python
