// Lists of chips as the user gives them: "gfx1100" or "gfx1100,gfx942".
#pragma once

#include <string>

namespace hipemu::tool {

std::string known_chips();  // "gfx90a, gfx942, ..."

// Throws ToolError when a name in the list is not a chip that can be emulated.
void check_chips(const std::string& list);

}  // namespace hipemu::tool
