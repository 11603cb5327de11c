// Attention over a cache of keys and values: queries of one sequence are taken together, a group of heads at
// a time.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/cached_attention_kernels.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/scratch.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

// Neighbouring queries of one sequence.
struct Tile {
  std::int64_t first, count;
};

std::vector<Tile> tiles_of(const std::int64_t* sequences, std::int64_t stride, std::int64_t count,
                           std::int64_t most_queries) {
  std::vector<Tile> tiles;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool joins = !tiles.empty() && tiles.back().count < most_queries &&
                       sequences[tiles.back().first * stride] == sequences[i * stride];
    if (joins)
      ++tiles.back().count;
    else
      tiles.push_back({i, 1});
  }
  return tiles;
}

template <typename Q>
std::unique_ptr<Kernel> make(const Step& step) {
  const auto& attributes = std::get<CachedAttentionAttributes>(step.attributes);
  const Layout &q = step.inputs[0], &keys = step.inputs[1], &values = step.inputs[2],
               &sequences = step.inputs[3], &positions = step.inputs[4], &table = step.inputs[5];
  if (!keys.contiguous() || !values.contiguous() || !table.contiguous())
    throw KernelError("[cached_attention] keys, values and table must be dense");
  const std::int64_t queries = q.shape[0], heads = q.shape[1], features = q.shape[2], groups = keys.shape[1],
                     shared = heads / groups, pages = table.shape[1], slots = keys.shape[0];
  const bool scaled = keys.dtype == DType::i8;
  if (scaled && (!step.inputs[6].contiguous() || !step.inputs[7].contiguous()))
    throw KernelError("[cached_attention] scales must be dense");
  const std::size_t sinks = scaled ? 8 : 6;  // the input, where there is one
  const bool has_sinks = step.inputs.size() > sinks;
  if (has_sinks && !step.inputs[sinks].contiguous())
    throw KernelError("[cached_attention] sinks must be dense");
  const auto attend =
      scaled ? cached_attention_kernels().attend_scaled
             : cached_attention_kernels().attend[static_cast<int>(keys.dtype) - static_cast<int>(DType::f16)];
  const std::size_t item = dtype_size(keys.dtype);
  // That share a widened key. A matrix unit is so fast that widening them counts for more.
  const std::int64_t most_queries = has_matrix_unit() && item == 2 ? 64 : 16;
  return kernel([=, q_strides = q.strides, sequence_stride = sequences.strides[0],
                 position_stride = positions.strides[0],
                 sequence_count = table.shape[0]](const KernelArguments& arguments) {
    if (queries == 0 || heads == 0 || features == 0) return;
    const Q* from = static_cast<const Q*>(arguments.inputs[0]);
    const auto* sequence_of = static_cast<const std::int64_t*>(arguments.inputs[3]);
    const auto* position_of = static_cast<const std::int64_t*>(arguments.inputs[4]);
    const auto* page_table = static_cast<const std::int64_t*>(arguments.inputs[5]);
    Q* to = static_cast<Q*>(arguments.outputs[0]);
    const auto* sink_of = has_sinks ? static_cast<const float*>(arguments.inputs[sinks]) : nullptr;
    const std::vector<Tile> tiles = tiles_of(sequence_of, sequence_stride, queries, most_queries);
    parallel_for(
        static_cast<std::int64_t>(tiles.size()) * groups, 1, [&](std::int64_t begin, std::int64_t end) {
          const std::int64_t most_rows = most_queries * shared;
          const Scratch memory(most_rows * 2 * features + cached_attention_scratch(most_rows, features));
          float *const query = memory.data(), *const result = query + most_rows * features,
                       *const scratch = result + most_rows * features;
          std::vector<CachedQueries::Row> rows;
          for (std::int64_t task = begin; task < end; ++task) {
            const Tile& tile = tiles[static_cast<std::size_t>(task / groups)];
            const std::int64_t group = task % groups, sequence = sequence_of[tile.first * sequence_stride];
            if (sequence < 0 || sequence >= sequence_count)
              throw IndexError("[cached_attention] a sequence is not in the table");
            rows.clear();
            std::int64_t least = pages * attributes.page, most = 0;
            for (std::int64_t i = 0; i < tile.count; ++i) {
              const std::int64_t position = position_of[(tile.first + i) * position_stride];
              if (position < 0 || position >= pages * attributes.page)
                throw IndexError("[cached_attention] a position is beyond the pages of the table");
              const std::int64_t first =
                  attributes.window > 0 ? std::max<std::int64_t>(0, position - attributes.window + 1) : 0;
              least = std::min(least, first);
              most = std::max(most, position + 1);
              for (std::int64_t h = 0; h < shared; ++h) {
                float* row = query + static_cast<std::int64_t>(rows.size()) * features;
                const Q* source =
                    from + (tile.first + i) * q_strides[0] + (group * shared + h) * q_strides[1];
                for (std::int64_t f = 0; f < features; ++f)
                  row[f] =
                      static_cast<float>(source[f * q_strides[2]]) * static_cast<float>(attributes.scale);
                rows.push_back(
                    {row, result + static_cast<std::int64_t>(rows.size()) * features, first, position,
                     sink_of ? sink_of[group * shared + h] : -std::numeric_limits<float>::infinity()});
              }
            }
            const std::int64_t* own_pages = page_table + sequence * pages;
            for (std::int64_t p = least / attributes.page; p * attributes.page < most; ++p)
              if (own_pages[p] < 0 || (own_pages[p] + 1) * attributes.page > slots)
                throw IndexError("[cached_attention] a page is not in the cache");
            const auto of_group = [&](std::size_t input) {
              return static_cast<const char*>(arguments.inputs[input]) +
                     static_cast<std::size_t>(group * features) * item;
            };
            const auto scales_of_group = [&](std::size_t input) -> const float16* {
              if (!scaled) return nullptr;
              return static_cast<const float16*>(arguments.inputs[input]) + group * features / 32;
            };
            attend({.rows = rows.data(),
                    .count = static_cast<std::int64_t>(rows.size()),
                    .features = features,
                    .keys = of_group(1),
                    .values = of_group(2),
                    .key_scales = scales_of_group(6),
                    .value_scales = scales_of_group(7),
                    .slot_stride = groups * features,
                    .pages = own_pages,
                    .page = attributes.page,
                    .first = least,
                    .end = most,
                    .soft_cap = static_cast<float>(attributes.soft_cap),
                    .scratch = scratch});
            for (std::size_t r = 0; r < rows.size(); ++r) {
              const auto index = static_cast<std::int64_t>(r);
              Q* target =
                  to + ((tile.first + index / shared) * heads + group * shared + index % shared) * features;
              for (std::int64_t f = 0; f < features; ++f) target[f] = static_cast<Q>(rows[r].out[f]);
            }
          }
        });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_cached_attention(const Step& step) {
  switch (step.inputs[0].dtype) {
    case DType::f16:
      return make<float16>(step);
    case DType::bf16:
      return make<bfloat16>(step);
    default:
      return make<float>(step);
  }
}

}  // namespace hearth::cpu
