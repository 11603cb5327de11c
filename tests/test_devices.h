// The devices that tests of all operations run on.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/device.h"
#include "hearth/dtype.h"

namespace hearth {

// The CPU, or the devices that HEARTH_TEST_DEVICES names ("rocm", "cuda:0"): all whose name begins so.
inline std::vector<Device> tested_devices() {
  const char* wanted = std::getenv("HEARTH_TEST_DEVICES");
  if (wanted == nullptr) return {Device{}};
  std::vector<Device> found;
  for (const Device device : devices())
    if (to_string(device).starts_with(wanted)) found.push_back(device);
  return found;
}

// Whether its matrix unit multiplies with weights from registers (kernels/quantised_groups.h).
inline bool has_wgmma(Device device) {
  return device.kind == DeviceKind::cuda && device_info(device).matrix_unit == "wgmma";
}

// On an emulated chip every kernel costs a compilation: with HEARTH_TEST_BRIEF set, tests leave out what
// repeats others there.
inline bool brief() { return std::getenv("HEARTH_TEST_BRIEF") != nullptr; }
// Of the types of 16 bits, those that a brief run takes: one if HEARTH_TEST_BRIEF names it, where a run on
// another chip takes the other.
inline std::vector<DType> brief_halves() {
  const std::string named = std::getenv("HEARTH_TEST_BRIEF");
  if (named == "f16") return {DType::f16};
  if (named == "bf16") return {DType::bf16};
  return {DType::f16, DType::bf16};
}

}  // namespace hearth
