// Words for whoever watches, on standard error. Where they cannot be written they are lost, and nothing else
// is: a full disk under a log must not end the work.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace hearth {

inline void say_to(std::FILE* stream, const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
}

template <class... T>
void say(fmt::format_string<T...> format, T&&... arguments) {
  say_to(stderr, fmt::format(format, std::forward<T>(arguments)...));
}

}  // namespace hearth
