// What is checked while kernels run.
#pragma once

#include <string_view>

namespace hipemu {

struct CheckOptions {
  bool bounds = false;   // red zones, freed memory, LDS and scratch beyond their size: named in the report
  bool init = false;     // use of memory that nobody has written
  bool race = false;     // unordered accesses of two waves or workgroups
  bool barrier = false;  // barriers that some lanes or waves never reach
  bool matrix = false;   // operands of matrix instructions
  bool align = false;    // accesses that the chip would not do

  bool any() const { return bounds || init || race || barrier || matrix || align; }
  // Does anything need the bytes of shadow beside an allocation?
  bool shadow() const { return init || race; }
  static constexpr CheckOptions all() { return {true, true, true, true, true, true}; }
};

// "off", "0", "none", "" or a list such as "bounds,race"; "all", "on" and "1" for everything. Throws
// std::invalid_argument for a name it does not know.
CheckOptions parse_check_options(std::string_view text);

// HIPEMU_CHECK, read once; everything is on when it is not set. A value that cannot be read counts as not
// set, after a line on stderr.
const CheckOptions& check_options();

}  // namespace hipemu
