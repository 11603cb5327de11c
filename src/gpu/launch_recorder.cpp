// Copies of arguments.
#include "gpu/launch_recorder.h"

#include <cstring>
#include <utility>

namespace hearth::gpu {
namespace {

thread_local LaunchRecorder* recorder = nullptr;
constexpr std::size_t alignment = 8;  // of every argument: pointers and numbers

}  // namespace

LaunchRecorder::LaunchRecorder() : outer_(recorder) { recorder = this; }
LaunchRecorder::~LaunchRecorder() { recorder = outer_; }
LaunchRecorder* LaunchRecorder::current() { return recorder; }

void LaunchRecorder::add(const Function& function, const LaunchShape& shape, Arguments& arguments) {
  const bool held = std::exchange(holds_next_, false);
  Launch launch{.function = function.handle,
                .shape = shape,
                .values = {},
                .offsets = {},
                .starts_early = function.starts_early && !held,
                .work = {}};
  launch.offsets.reserve(arguments.count());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < arguments.count(); ++i) {
    launch.offsets.push_back(static_cast<std::uint32_t>(bytes));
    bytes += (arguments.size(i) + alignment - 1) / alignment * alignment;
  }
  launch.values.resize(bytes);
  for (std::size_t i = 0; i < arguments.count(); ++i)
    std::memcpy(launch.values.data() + launch.offsets[i], arguments.data()[i], arguments.size(i));
  launches_.push_back(std::move(launch));
}

void LaunchRecorder::add_foreign(std::span<const void* const> pointers, ForeignWork work) {
  const auto bytes = std::as_bytes(pointers);
  launches_.push_back({.function = nullptr,
                       .shape = {},
                       .values = {bytes.begin(), bytes.end()},
                       .offsets = {},
                       .starts_early = false,
                       .work = std::move(work)});
}

}  // namespace hearth::gpu
