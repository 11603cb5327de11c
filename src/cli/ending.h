// How a training run ended, in the JSON that commands print.
#pragma once

#include "hearth/train.h"

namespace hearth::cli {

inline const char* name_of(train::Ending ending) {
  switch (ending) {
    case train::Ending::finished:
      return "finished";
    case train::Ending::stopped_early:
      return "stopped_early";
    case train::Ending::interrupted:
      return "interrupted";
    case train::Ending::stopped:
      return "stopped";
  }
  return "";
}

}  // namespace hearth::cli
