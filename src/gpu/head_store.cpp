#include "gpu/head_store.h"

#include <fmt/format.h>

#include <utility>

namespace hearth::gpu {
namespace {

// Behind x and the weights: positions, and frequencies where they are given.
constexpr std::size_t first_turn = 2;
bool frequencies_given(const StoredHeads& stored) { return stored.keys == first_turn + 2; }

bool steady(const Step& step, std::size_t input) { return (step.steady >> input & 1) != 0; }

}  // namespace

HeadStore::HeadStore(GpuDevice& device, const Step& step)
    : device_(device),
      stored_(*step.stored),
      turned_by_(step, first_turn, frequencies_given(stored_), stored_.rope, stored_.size / 2),
      steady_positions_(steady(step, first_turn)),
      steady_frequencies_(!frequencies_given(stored_) || steady(step, first_turn + 1)),
      rows_(step.inputs[0].shape[0]),
      key_slot_step_(step.inputs[stored_.keys + 1].strides[0]),
      value_slot_step_(step.inputs[stored_.values + 1].strides[0]),
      cache_slots_(step.inputs[stored_.keys].shape[0]),
      cache_dtype_(step.inputs[stored_.keys].dtype),
      copy_(make_copy(device, step.inputs[stored_.keys])) {}

StoreHeads HeadStore::arguments(const KernelArguments& arguments) const {
  void* const* in = arguments.inputs;
  void* const* out = arguments.outputs;
  for (const auto& [input, output] : {std::pair{stored_.keys, 1}, std::pair{stored_.values, 2}})
    if (in[input] != out[output]) copy_cache(*copy_, in + input, out + output);
  return {.turns = turned_by_.turns(in),
          .keys = {in[stored_.keys + 1], key_slot_step_, out[1]},
          .values = {in[stored_.values + 1], value_slot_step_, out[2]},
          .queries = out[0],
          .slots = cache_slots_,
          .rows = static_cast<std::uint32_t>(rows_),
          .heads = static_cast<std::uint32_t>(stored_.heads),
          .groups = static_cast<std::uint32_t>(stored_.groups),
          .fault = {device_.fault(), static_cast<std::uint64_t>(Op::store_rows)}};
}

std::string HeadStore::type() const { return fmt::format("StoreHeads<{}>", cache_type()); }
std::string HeadStore::pairing() const { return fmt::format("Turned<{}, {}>", half(), interleaved()); }

bool head_store_fits(const Step& product, const Step& store) {
  const auto dense_cache = [&](std::size_t input) {
    const Layout& cache = store.inputs[input];
    return is_floating(cache.dtype) && dtype_size(cache.dtype) <= 4 && cache.contiguous();
  };
  return product.inputs[0].dtype == DType::f32 && dense_cache(0) && dense_cache(3) &&
         store.inputs[1].dtype == DType::i64 && store.inputs[4].dtype == DType::i64;
}

}  // namespace hearth::gpu
