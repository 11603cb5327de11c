// What formatting does with one value: digits, sign, padding.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "llm/template/value.h"

namespace hearth::jinja {

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct FormatSpecification {
  std::string fill = " ";
  char align = 0;  // < > ^ =, or none given
  char sign = '-';
  bool alternate = false;
  std::size_t width = 0;
  char grouping = 0;  // , _ or none
  std::optional<std::size_t> precision;
  char type = 0;  // 0: none given
};

FormatSpecification parse_specification(std::string_view text);

// Fail for a type that does not fit the value. Width and precision are taken out of the budget.
std::string format_integer(Budget& budget, Integer value, const FormatSpecification& specification);
std::string format_real(Budget& budget, double value, const FormatSpecification& specification);
std::string format_text(Budget& budget, std::string_view text, const FormatSpecification& specification);

}  // namespace hearth::jinja
