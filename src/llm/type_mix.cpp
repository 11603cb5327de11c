// The types of tensors.
#include "llm/type_mix.h"

#include <fmt/format.h>

#include <charconv>

#include "hearth/error.h"

namespace hearth::llm {
namespace {

constexpr TypeMix pure(std::string_view name, DType type, std::uint32_t file_type) {
  return {name, type, type, type, file_type};
}
constexpr TypeMix mixes[] = {pure("f32", DType::f32, 0),
                             pure("f16", DType::f16, 1),
                             pure("bf16", DType::bf16, 32),
                             pure("q8_0", DType::q8_0, 7),
                             pure("q6_k", DType::q6_k, 18),
                             {"q5_k_m", DType::q5_k, DType::q6_k, DType::q6_k, 17},
                             pure("q5_k", DType::q5_k, 16),
                             pure("q5_1", DType::q5_1, 9),
                             pure("q5_0", DType::q5_0, 8),
                             {"q4_k_m", DType::q4_k, DType::q6_k, DType::q6_k, 15},
                             pure("q4_k", DType::q4_k, 14),
                             pure("q4_1", DType::q4_1, 3),
                             pure("q4_0", DType::q4_0, 2),
                             pure("iq4_nl", DType::iq4_nl, 25),
                             pure("iq4_xs", DType::iq4_xs, 30),
                             pure("mxfp4", DType::mxfp4, 38),
                             {"q3_k_m", DType::q3_k, DType::q6_k, DType::q5_k, 12},
                             pure("q3_k", DType::q3_k, 11),
                             pure("q2_k", DType::q2_k, 10)};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (const auto ending : endings)
    if (name.ends_with(ending)) return true;
  return false;
}

// "blk.7.attn_v.weight" -> 7
std::int64_t layer_of(std::string_view name) {
  std::int64_t layer = 0;
  constexpr std::string_view prefix = "blk.";
  if (name.starts_with(prefix))
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return layer;
}

bool is_costly_layer(std::int64_t layer, std::int64_t layers) {
  const std::int64_t eighth = layers / 8;
  return layer < eighth || layer >= layers * 7 / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace

std::span<const TypeMix> type_mixes() { return mixes; }

const TypeMix& find_type_mix(std::string_view name) {
  std::string names;
  for (const TypeMix& mix : mixes) {
    if (mix.name == name) return mix;
    names += (names.empty() ? "" : ", ") + std::string(mix.name);
  }
  throw ValueError(fmt::format("there is no type {}; there are {}", name, names));
}

bool is_matrix(const ModelPart& part) {
  return part.shape.size() >= 2 && part.name.ends_with(".weight") &&
         part.name.find("norm") == part.name.npos && !part.name.ends_with("ffn_gate_inp.weight");
}

DType wanted_type(const TypeMix& mix, const ModelPart& part) {
  if (!is_matrix(part)) return DType::f32;
  if (part.name == "output.weight" || (part.tied && part.name == "token_embd.weight")) return mix.output;
  if (ends_with_any(part.name, {".attn_v.weight", ".ffn_down.weight", ".ffn_down_exps.weight"}) &&
      is_costly_layer(layer_of(part.name), part.layers))
    return mix.values;
  return mix.matrices;
}

DType fitting_type(DType type, std::int64_t columns) {
  if (columns % block_elements(type) == 0) return type;
  if (columns % 32 != 0) return DType::f16;
  switch (type) {
    case DType::q6_k:
      return DType::q8_0;
    case DType::q5_k:
      return DType::q5_1;
    case DType::q4_k:
      return DType::q5_0;
    case DType::iq4_xs:
      return DType::iq4_nl;
    default:  // q3_k, q2_k
      return DType::q4_0;
  }
}

}  // namespace hearth::llm
