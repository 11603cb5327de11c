// The BLAS library as we use it.
#pragma once

namespace hearth::cpu {

// To be called before the first call of BLAS: it runs on the calling thread, one of our own pool's.
void keep_blas_on_one_thread();

}  // namespace hearth::cpu
