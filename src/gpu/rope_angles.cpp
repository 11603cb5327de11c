#include "gpu/rope_angles.h"

#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

}  // namespace

RopeInputs::RopeInputs(const Step& step, std::size_t first, bool frequencies_given,
                       const RopeAttributes& rope, std::int64_t half)
    : first_(first),
      frequencies_given_(frequencies_given),
      turns_{.positions = nullptr,
             .position_step = step.inputs[first].strides[0],
             .frequencies = nullptr,
             .frequency_step = frequencies_given ? step.inputs[first + 1].strides[0] : 0,
             .base = rope.base,
             .direction = rope.inverse ? -1.0 : 1.0,
             .half = static_cast<std::uint64_t>(half)} {
  if (step.inputs[first].dtype != DType::i64)
    throw DTypeError(
        fmt::format("[rope] positions are {}; i64 is needed", dtype_name(step.inputs[first].dtype)));
}

RopeTurns RopeInputs::turns(void* const* inputs) const {
  RopeTurns turns = turns_;
  turns.positions = inputs[first_];
  if (frequencies_given_) turns.frequencies = inputs[first_ + 1];
  return turns;
}

RopeAngles::RopeAngles(GpuDevice& device, DType dtype, std::int64_t time, std::int64_t half)
    : device_(device), dtype_(dtype), time_(time), half_(half) {
  const std::string text = fmt::format(
      "#include \"rope.h\"\n"
      "KERNEL void angles(RopeTurns turns, {0}* cosine, {0}* sine, u64 time) {{\n"
      "  after_previous();\n"
      "  rope_angles(turns, cosine, sine, time);\n}}\n",
      compute_type(dtype_));
  function_ = device.function({"rope", text, {}}, "angles");
}

std::size_t RopeAngles::one_bytes() const {
  const auto bytes = static_cast<std::size_t>(time_ * half_) * (dtype_ == DType::f64 ? 8 : 4);
  return (bytes + 63) / 64 * 64;
}

RopeAngles::Table RopeAngles::compute(const RopeTurns& turns, void* scratch) const {
  const Table table{scratch, static_cast<char*>(scratch) + one_bytes()};
  const auto time = static_cast<std::uint64_t>(time_), half = static_cast<std::uint64_t>(half_);
  device_.launch(function_, {.x = device_.grid_for((time + 15) / 16 * half, threads), .threads = threads},
                 turns, table.cosine, table.sine, time);
  return table;
}

}  // namespace hearth::gpu
