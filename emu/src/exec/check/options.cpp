// Reads HIPEMU_CHECK.
#include "exec/check/options.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace hipemu {

CheckOptions parse_check_options(std::string_view text) {
  if (text == "off" || text == "0" || text == "none" || text.empty()) return {};
  CheckOptions options;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (name == "all" || name == "on" || name == "1")
      options = CheckOptions::all();
    else if (name == "bounds")
      options.bounds = true;
    else if (name == "init")
      options.init = true;
    else if (name == "race")
      options.race = true;
    else if (name == "barrier")
      options.barrier = true;
    else if (name == "matrix")
      options.matrix = true;
    else if (name == "align")
      options.align = true;
    else
      throw std::invalid_argument(fmt::format(
          "HIPEMU_CHECK: '{}' is none of off, all, bounds, init, race, barrier, matrix, align", name));
  }
  return options;
}

const CheckOptions& check_options() {
  static const CheckOptions options = [] {
    const char* text = std::getenv("HIPEMU_CHECK");
    if (text == nullptr) return CheckOptions::all();
    try {
      return parse_check_options(text);
    } catch (const std::invalid_argument& error) {
      std::fprintf(stderr, "hipemu: %s; everything is checked\n", error.what());
      return CheckOptions::all();
    }
  }();
  return options;
}

}  // namespace hipemu
