// Copies of arguments.
#include "gpu/launch_recorder.h"

#include <cstring>

namespace hearth::gpu {
namespace {

thread_local LaunchRecorder* recorder = nullptr;
constexpr std::size_t alignment = 8;  // of every argument: pointers and numbers

}  // namespace

LaunchRecorder::LaunchRecorder() : outer_(recorder) { recorder = this; }
LaunchRecorder::~LaunchRecorder() { recorder = outer_; }
LaunchRecorder* LaunchRecorder::current() { return recorder; }

void LaunchRecorder::add(const Function& function, const LaunchShape& shape, Arguments& arguments) {
  Launch launch{.function = function.handle, .shape = shape, .values = {}, .offsets = {}};
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

}  // namespace hearth::gpu
