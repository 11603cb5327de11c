// A model whose vocabulary is larger than its tokenizer's, as many folders have them.
#pragma once

#include <filesystem>

#include "hearth/ops.h"
#include "llm/model.h"
#include "llm/weights.h"

namespace hearth::test {

// With as many ids again that are no tokens, which it likes better than the others.
inline llm::Model padded_copy(const std::filesystem::path& path, const llm::LoadOptions& options) {
  llm::ModelFile file = llm::open_model(path);
  file.config.vocabulary *= 2;
  file.tensor = [tensor = file.tensor](const std::string& name) {
    const Tensor weight = tensor(name);
    return name == "token_embd.weight" ? concat({weight, weight * 8.0}, 0) : weight;
  };
  return llm::make_model(file, options);
}

}  // namespace hearth::test
