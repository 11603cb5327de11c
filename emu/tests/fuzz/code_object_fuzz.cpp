// Fuzzes everything that reads code objects: whatever the bytes are, the answer is a CodeObjectError or code
// that can be loaded. The code is not executed.
#include <cstddef>
#include <cstdlib>
#include <span>

#include "code_object/bundle.h"
#include "code_object/code_object.h"

namespace {

template <typename Action>
void attempt(Action&& action) {
  try {
    action();
  } catch (const hipemu::CodeObjectError&) {  // refused, as it should be
  }
}

// What the rest of the program relies on.
void load(std::span<const std::byte> bytes) {
  hipemu::CodeObject object = hipemu::parse_code_object(bytes);
  const hipemu::LoadedCode code(std::move(object), {bytes.begin(), bytes.end()});
  for (const hipemu::Kernel& kernel : code.kernels()) {
    const auto* entry = reinterpret_cast<const std::byte*>(kernel.entry);
    if (entry < code.code().data() || entry + 4 > code.code().data() + code.code().size()) std::abort();
    if (kernel.explicit_argument_bytes() > kernel.descriptor.kernarg_size) std::abort();
  }
  for (const hipemu::GlobalVariable& variable : code.variables()) {
    const auto* data = reinterpret_cast<const std::byte*>(variable.address);
    const auto image = code.image();
    if (data < image.data() || data + variable.size > image.data() + image.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  attempt([&] { hipemu::image_size(bytes.data(), bytes.size()); });
  attempt([&] { load(bytes); });
  attempt([&] { load(hipemu::select_code_object(bytes, "gfx1100")); });
  attempt([&] { hipemu::select_code_object(bytes, "gfx90a:sramecc+:xnack-"); });
  return 0;
}
