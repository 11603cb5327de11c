// Checks of options that say what is wrong in words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

namespace detail {
template <class Fine>
CLI::Validator number_check(const char* wanted, Fine fine) {
  return CLI::Validator(
      [wanted, fine](std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && fine(number);
        return good ? std::string() : text + " is not " + wanted;
      },
      "");
}
}  // namespace detail

inline CLI::Validator must_be_positive() {
  return detail::number_check("a positive number", [](double number) { return number > 0; });
}
inline CLI::Validator must_not_be_negative() {
  return detail::number_check("a number from 0 on", [](double number) { return number >= 0; });
}

// Names of types are written in capitals elsewhere.
inline CLI::Validator in_small_letters() {
  return CLI::Validator(
      [](std::string& text) {
        text = CLI::detail::to_lower(text);
        return std::string();
      },
      "");
}

}  // namespace hearth::cli
