// Models written as GGUF files, quantised or as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth::llm {

struct Importance;

struct ExportOptions {
  std::string type = {};                   // of type_mixes(); empty: matrices stay as they are
  bool requantise = false;                 // also what is quantised already
  const Importance* importance = nullptr;  // by which errors are weighed
  // Gets how many bytes of the source are done, and of how many; ends it, without a file, by returning false.
  std::function<bool(std::int64_t, std::int64_t)> progress = {};
};

struct ExportedTensor {
  std::string name;
  Shape shape;
  DType from, to;
  DType wanted;  // `to` if its blocks had fitted the rows
  bool weighed;  // by importance
};

struct ExportResult {
  std::vector<ExportedTensor> tensors;
  std::int64_t bytes_before = 0, bytes_after = 0;  // of tensors
  bool finished = true;                            // else ended by `progress`
  std::vector<std::string> lost;                   // of the tokenizer, see tokenizer::GgufTokenizer
};

// `from` is a GGUF file, or a folder, whose names, order of rows and tokenizer become those of GGUF files.
// One part of one tensor is in memory at a time; of experts, those of a layer. The file appears when it is
// complete. Throws FileError; FormatError; ValueError for a type that there is none of, a weight that is not
// finite, or one that is quantised already.
ExportResult export_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                         const ExportOptions& options = {});

}  // namespace hearth::llm
