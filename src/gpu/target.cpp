// What is known of each architecture.
#include "gpu/target.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace hearth::gpu {
namespace {

Target nvidia(const std::string& name) {
  Target target{.architecture = name, .amd = false, .wave_size = 32, .int8_dot = true, .vector_registers = 0};
  const int capability = std::atoi(name.c_str() + 3);  // 90 of sm_90, 90 of sm_90a
  if (capability == 90)
    target.matrix = MatrixUnit::wgmma90;
  else if (capability >= 80)
    target.matrix = MatrixUnit::mma80;
  target.early_start = capability >= 90;
  if (capability >= 89) target.float8 = Float8::ocp;
  target.shared_bytes = capability == 80 || capability == 87                         ? 163 << 10
                        : capability == 90 || capability == 100 || capability == 103 ? 227 << 10
                        : capability >= 80                                           ? 99 << 10
                        : capability == 75                                           ? 64 << 10
                                                                                     : 48 << 10;
  return target;
}

Target amd(const std::string& name) {
  Target target{.architecture = name};
  const auto is = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (is("gfx9")) {
    target.wave_size = 64;
    target.vector_registers = 512;
    target.int8_dot = !is("gfx900") && !is("gfx902") && !is("gfx909") && !is("gfx90c");
    if (is("gfx90a")) target.matrix = MatrixUnit::mfma90a;
    if (is("gfx94") || is("gfx95")) target.matrix = MatrixUnit::mfma942;
    if (is("gfx94")) target.float8 = Float8::fnuz;
    if (is("gfx95")) {
      target.float8 = Float8::ocp;
      target.shared_bytes = 160 << 10;
    }
  } else if (is("gfx11")) {
    target.matrix = MatrixUnit::wmma11;
    target.int8_dot = true;
    // The larger chips have half as many registers again.
    const bool large = is("gfx1100") || is("gfx1101") || is("gfx1151");
    target.vector_registers = large ? 1536 : 1024;
  } else if (is("gfx12")) {
    target.matrix = MatrixUnit::wmma12;
    target.float8 = Float8::ocp;
    target.int8_dot = true;
    target.vector_registers = 1536;
  } else if (is("gfx103") || is("gfx1011") || is("gfx1012")) {
    target.int8_dot = true;
  }
  return target;
}

}  // namespace

Target target_of(const std::string& architecture) {
  const std::string name = architecture.substr(0, architecture.find(':'));
  return name.starts_with("sm_") ? nvidia(name) : amd(name);
}

}  // namespace hearth::gpu
