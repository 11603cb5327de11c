// Sorting lines: tiles in shared memory, then merges between two halves of scratch memory.
#include "gpu/line_sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;  // sort_threads of kernels/sort.h

KernelSource tiles_source(const char* header, const std::string& keys, std::string_view pair,
                          const std::string& sink) {
  return {
      "sort_tiles",
      fmt::format("#include \"{}\"\n"
                  "KERNEL void __launch_bounds__({}) sort_tiles({} keys, {} sink, Runs runs, u64 lines) {{\n"
                  "  sort_tiles<{}>(keys, sink, runs, lines);\n}}\n",
                  header, threads, keys, sink, pair),
      {}};
}

KernelSource merge_source(std::string_view pair, const std::string& sink) {
  return {"merge_runs",
          fmt::format("#include \"sort.h\"\n"
                      "KERNEL void __launch_bounds__({0}) merge_runs(const {1}* pairs, {2} sink, Runs from,\n"
                      "                                              Runs to, u64 lines) {{\n"
                      "  merge_runs<{1}>(pairs, sink, from, to, lines);\n}}\n",
                      threads, pair, sink),
          {}};
}

}  // namespace

LineSort::LineSort(GpuDevice& device, const char* header, const std::string& keys, bool wide,
                   std::int64_t lines, std::int64_t length, std::int64_t count, bool positions,
                   std::string_view index)
    : device_(device),
      lines_(static_cast<std::uint64_t>(lines)),
      tile_(wide ? 1024 : 2048),
      pair_bytes_(wide ? 16 : 8) {
  Runs runs{static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(count), 0, 0};
  runs.width = std::min(tile_, std::bit_ceil(std::max<std::uint64_t>(1, runs.length)));
  for (;; runs.width *= 2) {
    widths_.push_back(runs);
    line_pairs_ = std::max(line_pairs_, runs.per_line() * runs.stride());
    if (runs.width >= runs.length) break;
  }
  for (Runs& each : widths_) each.line_pairs = line_pairs_;
  const std::string_view pair = wide ? "WidePair" : "PackedPair";
  const std::string pairs = fmt::format("PairSink<{}>", pair);
  const std::string last = positions ? fmt::format("PositionSink<{}>", index) : pairs;
  tiles_ = device.function(tiles_source(header, keys, pair, widths_.size() > 1 ? pairs : last), "sort_tiles");
  if (widths_.size() > 2) merge_ = device.function(merge_source(pair, pairs), "merge_runs");
  if (widths_.size() > 1) last_merge_ = device.function(merge_source(pair, last), "merge_runs");
}

std::size_t LineSort::scratch_bytes() const {
  return static_cast<std::size_t>(lines_ * line_pairs_ * pair_bytes_ * (widths_.size() > 1 ? 2 : 1));
}

LaunchShape LineSort::tile_shape() const {
  const Runs& runs = widths_.front();
  const std::uint64_t per_block = tile_ / runs.width;
  const std::uint64_t blocks = (lines_ * runs.per_line() + per_block - 1) / per_block;
  return {.x = static_cast<unsigned>(std::min(blocks, LaunchShape::most_blocks)), .threads = threads};
}

const void* LineSort::merge(void* scratch, const PositionSink* sink) const {
  void* from = scratch;
  void* to = static_cast<char*>(scratch) + lines_ * line_pairs_ * pair_bytes_;
  for (std::size_t step = 1; step < widths_.size(); ++step) {
    const Runs &before = widths_[step - 1], &after = widths_[step];
    const std::uint64_t blocks = lines_ * after.per_line() * ((after.stride() + tile_ - 1) / tile_);
    const LaunchShape shape{.x = static_cast<unsigned>(std::min(blocks, LaunchShape::most_blocks)),
                            .threads = threads};
    const bool last = step + 1 == widths_.size();
    if (last && sink != nullptr)
      device_.launch(last_merge_, shape, from, *sink, before, after, lines_);
    else
      device_.launch(last ? last_merge_ : merge_, shape, from, to, before, after, lines_);
    std::swap(from, to);
  }
  return from;
}

}  // namespace hearth::gpu
