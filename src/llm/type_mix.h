// Which type each tensor of a model gets when it is quantised.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth::llm {

// Matrices get one type, or better ones where errors cost most: `output` for the matrix of the scores (which
// may be the embedding), `values` for attention's values and the way out of the feed-forward part in the
// first and last eighth of the layers and in every third between. Norms, biases and routers stay f32.
struct TypeMix {
  std::string_view name;
  DType matrices, output, values;
  std::uint32_t file_type;  // the format's number for it, general.file_type
};
std::span<const TypeMix> type_mixes();
// Throws ValueError with the names that there are.
const TypeMix& find_type_mix(std::string_view name);

struct ModelPart {
  std::string_view name;  // of the tensor
  const Shape& shape;
  std::int64_t layers;  // of the model
  bool tied;            // the embedding is the output
};
// Whether a tensor is one that is quantised at all.
bool is_matrix(const ModelPart& part);
// A type whose blocks do not fit the rows gives way to the next better one that fits.
DType wanted_type(const TypeMix& mix, const ModelPart& part);
DType fitting_type(DType type, std::int64_t columns);

}  // namespace hearth::llm
