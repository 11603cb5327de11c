// HIP's headers, parsed once: they take three quarters of the time that a small kernel takes to compile.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hipemu::hip {

// Options for clang that stand in for `-include` of each of `headers`, for a compilation with `options`.
// Nothing for the first compilation with these options (one kernel alone does not pay for it), nor when clang
// could not make the file. The files live as long as the process. Safe from any thread.
std::optional<std::vector<std::string>> precompiled_headers(const std::vector<std::string>& options,
                                                            const std::vector<std::string>& headers);

}  // namespace hipemu::hip
