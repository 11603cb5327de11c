// Checks of options that say what is wrong in words.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

namespace hearth::cli {

namespace detail {
template <class Fine>
CLI::Validator number_check(std::string wanted, Fine fine) {
  return CLI::Validator(
      [wanted = std::move(wanted), fine](std::string& text) {
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
inline CLI::Validator must_be_from(int least) {
  return detail::number_check("a number from " + std::to_string(least) + " on",
                              [least](double number) { return number >= least; });
}
inline CLI::Validator must_not_be_negative() { return must_be_from(0); }

// 64 bits; of others the parser makes some that fit.
inline CLI::Validator must_be_a_seed() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t seed = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, seed);
        return error == std::errc() && stop == end
                   ? std::string()
                   : text + " is not a whole number from 0 to 18446744073709551615";
      },
      "");
}

// A script's variable that is not set would leave out what the script asks for.
inline CLI::Validator must_not_be_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "the value is empty" : ""; }, "");
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
