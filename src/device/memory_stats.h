// Figures of memory as text.
#pragma once

#include <cstddef>
#include <string>

namespace hearth {

std::string format_bytes(std::size_t bytes);  // "512 bytes", "1.50 GiB"

}  // namespace hearth
