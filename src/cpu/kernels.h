// The CPU's kernels, by subject. Each function makes a step ready, or throws DTypeError where there is no
// kernel for its dtypes. Kernels run on the calling thread and the pool (base/thread_pool.h).
#pragma once

#include <functional>
#include <memory>

#include "device/step.h"

namespace hearth::cpu {

using RunFunction = std::function<void(const KernelArguments&)>;

// A kernel whose run() calls `run`.
std::unique_ptr<Kernel> kernel(RunFunction run);

std::unique_ptr<Kernel> make_elementwise(const Step& step);  // Op::copy with an expression
std::unique_ptr<Kernel> make_reduction(const Step& step);    // sum prod max min all any
std::unique_ptr<Kernel> make_matmul(const Step& step);       // matmul, with an optional epilogue expression
std::unique_ptr<Kernel> make_convolution(const Step& step);  // conv conv_input_grad conv_weight_grad
std::unique_ptr<Kernel> make_pooling(const Step& step);      // max_pool avg_pool and their gradients
std::unique_ptr<Kernel> make_scan(const Step& step);         // argmax argmin cumsum cumprod argsort
std::unique_ptr<Kernel> make_movement(const Step& step);     // concat pad unslice arange
std::unique_ptr<Kernel> make_cached_attention(const Step& step);
std::unique_ptr<Kernel> make_indexing(const Step& step);  // take index_add gather scatter scatter_add
std::unique_ptr<Kernel> make_normalisation(
    const Step& step);  // softmax log_softmax layer_norm rms_norm rope, gradients
std::unique_ptr<Kernel> make_quantised(
    const Step& step);  // dequantise quantised_take quantised_matmul, copies of blocks
std::unique_ptr<Kernel> make_expert_matmul(const Step& step);
std::unique_ptr<Kernel> make_random(const Step& step);  // random_uniform random_normal random_bits

}  // namespace hearth::cpu
