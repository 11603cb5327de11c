// What a program compiled by hiprtc finds where HIP's headers are not installed.
#pragma once

#include <string_view>

namespace hipemu::hip {

extern const std::string_view hiprtc_prelude;

}  // namespace hipemu::hip
