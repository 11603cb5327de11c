// Which device a user means by a name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/device.h"

namespace hearth {

// The machine that a choice is made on. Asked only when the name needs it: "cpu" opens no GPU library.
struct DeviceChoices {
  std::function<std::vector<DeviceInfo>()> gpus;
  std::function<std::string(DeviceKind)> unavailable_reason;  // why there is none of a kind
};

// See device_from_name().
Device select_device(std::string_view name, const DeviceChoices& choices);

}  // namespace hearth
