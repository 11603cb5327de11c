// Include it in a test whose models and tensors name no device: they are on the first of tested_devices().
#pragma once

#include <gtest/gtest.h>

#include "test_devices.h"

namespace hearth::test {

class DefaultDevice : public testing::Environment {
  void SetUp() override {
    ASSERT_FALSE(tested_devices().empty());
    set_default_device(tested_devices().front());
  }
};
inline const auto* const default_device_environment = testing::AddGlobalTestEnvironment(new DefaultDevice);

// Emulated GPUs take long for what others do at once.
inline bool is_emulated() {
  return std::getenv("HIPEMU") != nullptr && default_device().kind == DeviceKind::rocm;
}

}  // namespace hearth::test
