// Tiles of attention's kernels, chosen by what fits into registers and shared memory.
#include "gpu/attention_engines.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr std::size_t most_shared_amd = 64 << 10, most_shared = 99 << 10;

// How many operands a kernel has in shared memory.
struct Needs {
  int own;            // of the block's own rows
  int rows, columns;  // that pass by, where the second product reads a transposed copy
  int untransposed;   // that pass by, where it does not
  int sums;           // results
};
Needs needs_of(AttentionResult result) {
  switch (result) {
    case AttentionResult::output:
      return {1, 1, 1, 2, 1};
    case AttentionResult::dv:
      return {1, 1, 1, 2, 1};
    case AttentionResult::dk_and_dv:
      return {2, 2, 2, 2, 2};
    default:
      return {2, 2, 1, 2, 1};
  }
}

int rounded_features(std::int64_t features, std::initializer_list<int> sizes) {
  for (const int size : sizes)
    if (features <= size) return size;
  throw KernelError(fmt::format("[attention] heads of {} features, at most 256 are supported", features));
}

AttentionEngine fma_engine(DType dtype, std::int64_t features, AttentionResult result) {
  const int size = rounded_features(features, {64, 128, 192, 256});
  const bool forward = result == AttentionResult::output;
  const int own_tiles = size <= 128 ? 2 : 1;
  const int others = size <= 64 ? 32 : 16;
  const bool together = forward || size <= 192;
  const AttentionTiles tiles{size, own_tiles * 16, others, 4, false, own_tiles * 16 * (others + 4)};
  const int elements = attention_shared_elements(tiles, needs_of(result).own, together ? 2 : 1, 0);
  return {
      "attention_fma.h",
      fmt::format("FmaEngine<{}, {}, {}, {}, {}>", storage_type(dtype), size, own_tiles, others, together),
      tiles, 256, static_cast<unsigned>(elements) * 4};
}

AttentionEngine mma_engine(const Target& target, DType dtype, std::int64_t features, AttentionResult result) {
  const int size = rounded_features(features, {32, 64, 96, 128, 192, 256});
  const Needs needs = needs_of(result);
  const bool transposes = target.amd,
             by_keys = result != AttentionResult::output && result != AttentionResult::dq;
  const int depth = target.wave_size == 64 ? 32 : 16;
  // Registers of a lane for 16 own rows as an operand, and for their sums.
  const int own_registers = target.matrix == MatrixUnit::wmma11 ? size / 2 : size / depth * 4;
  const int sum_registers = size * 16 / target.wave_size * needs.sums;
  // Gradients have two tiles of scores at once.
  const bool room = sum_registers <= 32 && (result == AttentionResult::output || target.wave_size == 64);
  int own_tiles = room ? 2 : 1, waves = 4, others = size <= 128 && needs.sums == 1 ? 64 : 32;
  const std::size_t limit = target.amd ? most_shared_amd : std::min(most_shared, target.shared_bytes);
  const auto tiles = [&](bool holds) {
    return AttentionTiles{size, waves * own_tiles * 16, others, 8, holds, 0};
  };
  const auto shared = [&](bool holds) {
    return static_cast<std::size_t>(
        2 * (transposes ? attention_shared_elements(tiles(holds), needs.own, needs.rows, needs.columns)
                        : attention_shared_elements(tiles(holds), needs.own, needs.untransposed, 0)));
  };
  const auto fits = [&](bool holds) {
    const std::size_t declared = by_keys ? 8 * static_cast<std::size_t>(others) : 0;  // by the kernel itself
    return shared(holds) + declared <= limit;
  };
  // Own operands may be held as well as the sums as long as both leave half of a lane's registers.
  const int most_registers = target.wave_size == 64 ? 512 : 256;
  const bool can_hold =
      own_registers * needs.own <= 64 && own_registers * needs.own + sum_registers <= most_registers / 2;
  bool holds = result == AttentionResult::output && own_registers * own_tiles <= 32;
  if (!fits(holds) && others > 32) others = 32;
  if (!fits(holds) && own_tiles > 1) own_tiles = 1;
  if (!fits(holds) && can_hold) holds = true;
  if (!fits(holds) && others > depth) others = depth;
  if (!fits(holds)) waves = 2;
  if (!fits(holds))
    throw KernelError(fmt::format("[attention] {} features need {} bytes of shared memory, {} has {}", size,
                                  shared(holds), target.architecture, limit));
  return {"attention_mma.h",
          fmt::format("MmaEngine<{}, {}, {}, {}, {}, {}>", storage_type(dtype), size, waves, own_tiles,
                      others, holds),
          tiles(holds), static_cast<unsigned>(waves * target.wave_size),
          static_cast<unsigned>(shared(holds))};
}

bool has_matrix_unit(const Target& target, DType dtype) {
  return dtype != DType::f32 && target.matrix != MatrixUnit::none;
}

}  // namespace

AttentionEngine attention_engine(const Target& target, DType dtype, std::int64_t features,
                                 AttentionResult result) {
  return has_matrix_unit(target, dtype) ? mma_engine(target, dtype, features, result)
                                        : fma_engine(dtype, features, result);
}

std::optional<AttentionEngine> warpgroup_engine(const Target& target, DType dtype, std::int64_t features,
                                                AttentionResult result) {
  if (target.matrix != MatrixUnit::wgmma90 || dtype == DType::f32 || (features != 64 && features != 128))
    return std::nullopt;
  const int size = static_cast<int>(features), own = 128;
  // Tiles begin at a multiple of 1024 bytes; the sizes are those of the kernels.
  const auto bytes = [&](int own_operands, int passing, int others) {
    return static_cast<unsigned>((own_operands * own + passing * others) * size * 2 + 1024);
  };
  if (result == AttentionResult::output)
    return AttentionEngine{.header = "attention_wgmma.h",
                           .type = fmt::format("WgmmaForward<{}, {}>", storage_type(dtype), size),
                           .tiles = {size, own, 128, 0, false, 0},
                           .threads = 384,
                           .shared = bytes(2, 2 * (size == 64 ? 3 : 2), 128),
                           .together = 1,
                           .warpgroups = true,
                           .stays = true};
  const bool by_keys = result == AttentionResult::dk_and_dv;
  return AttentionEngine{.header = "attention_wgmma_backward.h",
                         .type = fmt::format("WgmmaGradient<{}, {}, {}>", storage_type(dtype), size, by_keys),
                         .tiles = {size, own, 64, 0, false, 0},
                         .threads = 384,
                         .shared = bytes(2, 2 * (size == 64 ? 4 : 3), 64),
                         .together = 1,
                         .warpgroups = true,
                         .stays = size == 64};
}

std::optional<AttentionEngine> whole_engine(const Target& target, DType dtype, std::int64_t features,
                                            std::int64_t rows) {
  constexpr int most_waves = 6;  // beyond, larger tiles of warpgroups are no waste
  const int waves = rows <= 32 ? 2 : rows <= 64 ? 4 : most_waves;
  const bool unit = target.matrix == MatrixUnit::mma80 || target.matrix == MatrixUnit::wgmma90;
  if (!unit || dtype == DType::f32 || features != 64 || rows > most_waves * 16) return std::nullopt;
  const int size = static_cast<int>(features);
  const AttentionTiles tiles{size, waves * 16, waves * 16, 8, false, 0};
  return AttentionEngine{.header = "attention_whole.h",
                         .type = fmt::format("MmaEngine<{}, {}, {}, 1, {}, false>", storage_type(dtype), size,
                                             waves, waves * 16),
                         .tiles = tiles,
                         .threads = static_cast<unsigned>(waves * target.wave_size),
                         .shared = static_cast<unsigned>(2 * attention_shared_elements(tiles, 1, 2, 0)),
                         .together = target.matrix == MatrixUnit::wgmma90 && waves == most_waves ? 5 : 0,
                         .whole = true};
}

std::optional<AttentionEngine> whole_gradients_engine(const Target& target, DType dtype,
                                                      std::int64_t features, std::int64_t rows) {
  auto engine = whole_engine(target, dtype, features, rows);
  if (!engine) return std::nullopt;
  // Slopes of all pairs of rows besides four operands, where a row of results has room as well, and two
  // numbers of each row that the kernel declares.
  const AttentionTiles& tiles = engine->tiles;
  const int pairs = tiles.own * (std::max(tiles.own, tiles.features) + tiles.padding);
  engine->header = "attention_whole_gradients.h";
  engine->shared = static_cast<unsigned>(2 * (attention_shared_elements(engine->tiles, 2, 2, 0) + pairs));
  engine->together = engine->together > 0 ? 3 : 0;
  const std::size_t declared = 8 * static_cast<std::size_t>(engine->tiles.own);
  if (engine->shared + declared > std::min(most_shared, target.shared_bytes)) return std::nullopt;
  return engine;
}

bool gradients_apart(const Target& target, DType dtype, std::int64_t features) {
  return has_matrix_unit(target, dtype) && (2 * features * 16 / target.wave_size > 128 || features > 192);
}

KernelSource attention_source(const AttentionEngine& engine, DType dtype, AttentionResult result,
                              bool packets) {
  const bool forward = result == AttentionResult::output, by_q = result == AttentionResult::dq;
  const std::string type(storage_type(dtype));
  const std::string operand =
      engine.warpgroups ? "const __grid_constant__ TensorMap " : fmt::format("const {}* ", type);
  const std::string results = forward ? fmt::format("{0}* out, f32* logarithms, f32* partial", type)
                                      : fmt::format(
                                            "const f32* logarithms, const f32* delta, {1}dy, {0}* dk, "
                                            "{0}* dv",
                                            type, operand);
  std::string call;
  if (engine.warpgroups)
    call = forward ? "Engine::run(shape, &q, &k, &v, out, logarithms)"
                   : "Engine::run(shape, {&q, &k, &v, &dy, logarithms, delta}, dk, dv)";
  else if (engine.whole)
    call = "attention::forward_whole<Engine>(shape, q, k, v, out, logarithms)";
  else if (forward)
    call = fmt::format("attention::forward<Engine, {}>(shape, q, k, v, out, logarithms, partial)", packets);
  else if (by_q)
    call =
        fmt::format("attention::gradient_q<Engine, {}>(shape, q, k, v, logarithms, delta, dy, dk)", packets);
  else
    call = fmt::format(
        "attention::gradient_kv<Engine, {}, {}, {}>(shape, q, k, v, logarithms, delta, dy, dk, dv)", packets,
        result != AttentionResult::dv, result != AttentionResult::dk);
  return {
      forward ? "attention"
      : by_q  ? "attention_gradient_q"
              : "attention_gradient_kv",
      fmt::format("#include \"{0}\"\n#include \"{1}\"\nusing Engine = attention::{2};\n"
                  "KERNEL void __launch_bounds__(Engine::threads{3}) attention_kernel(AttentionShape shape, "
                  "{4}q, {4}k, {4}v, {5}) {{\n  after_previous();\n  {6};\n}}\n",
                  forward ? "attention.h" : "attention_backward.h", engine.header, engine.type,
                  engine.together > 0 ? fmt::format(", {}", engine.together) : "", operand, results, call),
      {}};
}

KernelSource whole_gradients_source(const AttentionEngine& engine, DType dtype, bool packets,
                                    const RopeAttributes* rope) {
  const std::string turn =
      rope == nullptr
          ? "attention::AsTheyAre{}"
          : fmt::format("attention::Turned<{}>{{{{cosine, sine, Engine::features / 2}}}}", rope->interleaved);
  return {
      "attention_gradients",
      fmt::format(
          "#include \"{0}\"\nusing Engine = attention::{1};\n"
          "KERNEL void __launch_bounds__(Engine::threads{2}) attention_gradients(AttentionShape shape, "
          "const {3}* q, const {3}* k, const {3}* v, const {3}* y, const f32* logarithms, "
          "const {3}* dy, {3}* out{4}) {{\n  after_previous();\n"
          "  attention::gradients_whole<Engine, {5}>(shape, q, k, v, y, logarithms, dy, out, {6});\n}}\n",
          engine.header, engine.type, engine.together > 0 ? fmt::format(", {}", engine.together) : "",
          storage_type(dtype), rope == nullptr ? "" : ", const f32* cosine, const f32* sine", packets, turn),
      {}};
}

KernelSource combine_source(DType dtype) {
  return {"attention_combine",
          fmt::format("#include \"attention.h\"\n"
                      "KERNEL void attention_combine(AttentionShape shape, const f32* partial, {0}* out, "
                      "f32* logarithms) {{\n  after_previous();\n"
                      "  attention::combine(shape, partial, out, logarithms);\n}}\n",
                      storage_type(dtype)),
          {},
          16};
}

}  // namespace hearth::gpu
