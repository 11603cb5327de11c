// From kernel source to code for one architecture, by the vendor's run-time compiler, with a cache in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver/driver.h"

namespace hearth::gpu {

struct KernelSource {
  std::string name;                  // for messages and the compiler's log
  std::string text;                  // may include "gpu.h" and the other headers of gpu/kernels
  std::vector<std::string> options;  // besides those that every kernel gets
  // What a thread reads at once, where neighbours in memory are read in packets; 0: not said. For reports.
  std::size_t packet_bytes = 0;
};

struct CompilerStats {
  std::uint64_t compilations = 0, memory_hits = 0, disk_hits = 0, errors = 0;
  double seconds = 0;  // spent compiling
};

// Compiles for `architecture` ("gfx1100", "sm_90") with waves of `wave_size` lanes; neither a device nor a
// usable driver is needed, only its compiler. The result is kept in the kernel cache. $HEARTH_KERNEL_SOURCES
// names a folder that gets the text of each kernel that is compiled. Throws CompileError with the compiler's
// log. Safe from any thread.
std::vector<char> compile(const Driver& driver, const std::string& architecture, int wave_size,
                          const KernelSource& source);

// The same without looking into the cache or leaving anything there.
std::vector<char> compile_uncached(const Driver& driver, const std::string& architecture, int wave_size,
                                   const KernelSource& source);

// Whether the compiler of a ROCm of this version (as HIP counts them) can be asked for a chip. Before 5.4 it
// ends the process where it does not know one.
bool rocm_may_compile(int version, std::string_view architecture);

CompilerStats compiler_stats();

// The headers that kernels include: name and text. Made from gpu/kernels at build time.
struct KernelHeader {
  const char* name;
  const char* text;
};
const std::vector<KernelHeader>& kernel_headers();

}  // namespace hearth::gpu
