// What is done ahead of an access and after it.
#include "exec/check/access.h"

namespace hipemu {

void before_access(Wave&, const Operation&, const LaneAccess&) {}
void after_access(Wave&, const Operation&, const LaneAccess&) {}
void check_scalar_access(Wave&, const Operation&, const Allocation&, uint64_t, uint32_t, AccessKind) {}
struct RaceClock {};
void LdsShadow::begin(uint32_t, const CheckOptions&, uint64_t) {}

}  // namespace hipemu
