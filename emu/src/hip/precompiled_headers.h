// What many programs begin with, parsed once: HIP's headers, which take three quarters of the time that a
// small kernel takes to compile, and those that the program itself includes first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hipemu::hip {

// How a compilation begins.
struct Beginning {
  std::vector<std::string> options;                          // clang's
  std::vector<std::string> before;                           // headers to include before the program
  std::string_view includes;                                 // lines of #include that the program starts with
  std::vector<std::pair<std::string, std::string>> headers;  // the program's: name, text
};

struct Precompiled {
  std::vector<std::string> arguments;  // for clang, in place of `-include` of each of `before`
  // Where the program's headers are, if `includes` were parsed too: the program must not have those again,
  // and find what else it includes here, for clang knows a header that it has by the file. Empty if they were
  // not.
  std::filesystem::path headers;
};

// The number of bytes of the lines of #include at the start of a program, with blank lines and comments
// between them. What comes next may change what a header says, so includes after it do not count.
std::size_t length_of_includes(std::string_view source);

// Nothing for the first compilations that begin so (a few kernels do not pay for it), nor when clang could
// not make the file. The files live as long as the process. Safe from any thread.
std::optional<Precompiled> precompiled_headers(const Beginning& beginning);

}  // namespace hipemu::hip
