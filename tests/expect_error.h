// Expecting an exception and what its message says.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace hearth::test {

// `run` must throw an `E` whose message contains all of `parts`.
template <typename E, typename F>
void expect_error(F&& run, std::initializer_list<std::string_view> parts) {
  try {
    run();
  } catch (const E& error) {
    const std::string message = error.what();
    for (const auto part : parts)
      EXPECT_NE(message.find(part), message.npos) << part << " is not in: " << message;
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return;
  }
  ADD_FAILURE() << "no exception";
}

}  // namespace hearth::test
