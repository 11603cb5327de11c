// Chooses the variant of the instruction table.
#include "exec/semantics/table.h"

namespace hipemu {

namespace baseline {
std::vector<Semantics> all_rows();
}
#ifdef HIPEMU_HAVE_V3
namespace v3 {
std::vector<Semantics> all_rows();
}
#endif

std::vector<Semantics> all_semantics() {
#ifdef HIPEMU_HAVE_V3
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return v3::all_rows();
#endif
  return baseline::all_rows();
}

}  // namespace hipemu
