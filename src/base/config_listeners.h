// Telling parts of the runtime that the configuration has changed.
#pragma once

#include "hearth/config.h"

namespace hearth {

using ConfigListener = void (*)(const Config&);

// Calls `listener` now and after every change, from the thread that makes it.
void on_config_change(ConfigListener listener);

}  // namespace hearth
