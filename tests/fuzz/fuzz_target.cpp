// A libFuzzer target for the entry point named by HEARTH_FUZZ_ENTRY.
#include "entry_points.h"
#include "hearth/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    hearth::fuzz::HEARTH_FUZZ_ENTRY(std::as_bytes(std::span(data, size)));
  } catch (const hearth::Error&) {  // refused, as it should be
  }
  return 0;
}
