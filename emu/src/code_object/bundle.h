// What a HIP program carries: a code object, or an offload bundle with one per target, plain or compressed.
#pragma once

#include <string>
#include <vector>

#include "code_object/bytes.h"
#include "code_object/compressed.h"

namespace hipemu {

struct BundleEntry {
  std::string id;      // as in the bundle: "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"
  std::string target;  // "gfx90a:xnack-"; empty when the entry is not code for an AMD GPU
  Bytes code;          // a code object
};

// The entries of an image. Plain images are not copied: `image` must outlive this.
class Bundle {
 public:
  // Throws CodeObjectError when `image` is none of the kinds above.
  explicit Bundle(Bytes image);

  const std::vector<BundleEntry>& entries() const { return entries_; }

 private:
  Buffer decompressed_;
  std::vector<BundleEntry> entries_;
};

}  // namespace hipemu
