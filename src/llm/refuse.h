// What is wrong with a model's file, or with what it says.
#pragma once

#include <fmt/format.h>

#include <filesystem>

#include "hearth/error.h"

namespace hearth::llm {

[[noreturn]] inline void refuse(const std::filesystem::path& path, const std::string& rule) {
  throw FormatError(fmt::format("[model] '{}': {}", path.string(), rule));
}

}  // namespace hearth::llm
