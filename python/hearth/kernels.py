"""GPU kernels of your own, compiled at run time.

    scale = ht.kernels.compile('''
        extern "C" __global__ void scale(float* x, float factor, int count) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < count) x[i] *= factor;
        }''', "scale")
    scale.launch(4, 256, x, 2.0, 1000)
"""

from ._core._kernels import Kernel, cache_stats, clear_cache, compile

__all__ = ["Kernel", "compile", "cache_stats", "clear_cache"]
