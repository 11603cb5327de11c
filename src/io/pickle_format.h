// PyTorch's checkpoints: a zip archive with a pickle of the names and places of tensors, and their bytes.
//
// A pickle is a program; Python's reader of them calls whatever function a file names. This one knows a
// handful of names, all of them of tensors and dictionaries, and refuses a file with any other.
#pragma once

#include <map>
#include <string>

#include "io/array.h"

namespace hearth::io {

// The tensors of a state dictionary, by name; those of dictionaries within it as "outer.inner". What is
// neither is left out. Throws FormatError.
std::map<std::string, Array> parse_torch_checkpoint(Bytes file, std::string_view source);

}  // namespace hearth::io
