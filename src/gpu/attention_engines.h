// Which tiles, threads and matrix unit compute attention on a chip, and the text of the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpu/compiler.h"
#include "gpu/target.h"
#include "graph/attributes.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

#include "gpu/kernels/attention_arguments.h"

enum class AttentionResult { output, dq, dk, dv, dk_and_dv };

struct AttentionEngine {
  const char* header;  // of gpu/kernels
  std::string type;    // in namespace attention
  AttentionTiles tiles;
  unsigned threads, shared;  // shared: bytes that the launch asks for
  int together = 0;          // blocks that a multiprocessor is to hold at least; 0: the compiler's choice
  bool warpgroups = false;
  bool stays = false;  // a block may have several jobs, one after another
  bool whole = false;  // a block has all rows of a head
};

// For heads of up to 256 features. Throws KernelError where there is none.
AttentionEngine attention_engine(const Target& target, DType dtype, std::int64_t features,
                                 AttentionResult result);
// A faster one for operands that can be read in packets, where the chip has warpgroups that multiply and an
// engine that copies.
std::optional<AttentionEngine> warpgroup_engine(const Target& target, DType dtype, std::int64_t features,
                                                AttentionResult result);
// Likewise one for the output of sequences of at most so many queries and keys, where the chip has one.
std::optional<AttentionEngine> whole_engine(const Target& target, DType dtype, std::int64_t features,
                                            std::int64_t rows);
// And one for all gradients of such sequences at once, where queries do not share keys.
std::optional<AttentionEngine> whole_gradients_engine(const Target& target, DType dtype,
                                                      std::int64_t features, std::int64_t rows);
// Whether dk and dv need a kernel each: wide heads have more sums than a lane has registers.
bool gradients_apart(const Target& target, DType dtype, std::int64_t features);

// The function `attention_kernel`. packets: all rows can be read 16 bytes at a time. Warpgroups get a
// TensorMap for each of q, k, v and dy.
//   output     (shape, q, k, v, out, logarithms, partial)
//   gradients  (shape, q, k, v, logarithms, delta, dy, dk or dq, dv)
KernelSource attention_source(const AttentionEngine& engine, DType dtype, AttentionResult result,
                              bool packets);
// The function `attention_gradients`: (shape, q, k, v, y, logarithms, dy, out), and where dq and dk go
// through `rope` tables of cosines and sines.
KernelSource whole_gradients_source(const AttentionEngine& engine, DType dtype, bool packets,
                                    const RopeAttributes* rope);
// The function `attention_combine`: (shape, partial, out, logarithms).
KernelSource combine_source(DType dtype);

}  // namespace hearth::gpu
