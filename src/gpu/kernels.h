// The GPU's kernels, by subject. Each function makes a step ready, or throws DTypeError where there is none.
#pragma once

#include <memory>

#include "device/step.h"
#include "gpu/device.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step);  // copy with an expression
std::unique_ptr<Kernel> make_copy(GpuDevice& device, const Layout& x);          // to dense memory
// By such a kernel, a cache of keys that is not written in place. The launch behind it begins when that has
// ended: attention may read old keys before the launch before it has (CachedAttentionOptions::old_keys).
void copy_cache(const Kernel& copy, void* const* from, void* const* to);
std::unique_ptr<Kernel> make_batched_elementwise(GpuDevice& device, const Step& step);  // with parts
std::size_t most_batched_parts(const Step& step);
std::unique_ptr<Kernel> make_reduction(GpuDevice& device, const Step& step);      // sum prod max min all any
std::unique_ptr<Kernel> make_arg_reduction(GpuDevice& device, const Step& step);  // argmax argmin
std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step);         // with an optional epilogue
std::unique_ptr<Kernel> make_convolution(GpuDevice& device, const Step& step);    // conv and its gradients
std::unique_ptr<Kernel> make_pooling(GpuDevice& device, const Step& step);   // max, avg and their gradients
std::unique_ptr<Kernel> make_scan(GpuDevice& device, const Step& step);      // cum*, argsort
std::unique_ptr<Kernel> make_movement(GpuDevice& device, const Step& step);  // concat pad unslice arange
std::unique_ptr<Kernel> make_indexing(GpuDevice& device, const Step& step);  // take, gather, scatter, ...
bool turned_parts_fit(const Step& concat);                                   // Backend::turns_parts
std::unique_ptr<Kernel> make_turned_parts(GpuDevice& device, const Step& step);   // Step::turned_parts
std::unique_ptr<Kernel> make_normalisation(GpuDevice& device, const Step& step);  // softmax, norms
std::unique_ptr<Kernel> make_rope(GpuDevice& device, const Step& step);
std::unique_ptr<Kernel> make_cross_entropy(GpuDevice& device, const Step& step);  // and its gradient
std::unique_ptr<Kernel> make_quantised(GpuDevice& device, const Step& step);      // and copies of blocks
std::unique_ptr<Kernel> make_quantised_matmul(GpuDevice& device, const Step& step);
bool attention_rounds_rows(const GpuDevice& device, const Step& attention, std::uint32_t run);
bool quantised_takes_norm(const GpuDevice& device, const Step& product, const Step& norm);  // as Backend's
std::unique_ptr<Kernel> make_expert_matmul(GpuDevice& device, const Step& step);
std::unique_ptr<Kernel> make_random(GpuDevice& device, const Step& step);
std::unique_ptr<Kernel> make_store_rows(GpuDevice& device, const Step& step);
inline constexpr std::size_t most_stored_parts = 2;  // of store_rows
std::unique_ptr<Kernel> make_cached_attention(GpuDevice& device, const Step& step);
std::unique_ptr<Kernel> make_attention(GpuDevice& device, const Step& step);  // and its gradients
bool attention_gradients_fit(const GpuDevice& device, const Step& step);      // joins_attention_gradients
std::unique_ptr<Kernel> make_attention_gradients(GpuDevice& device, const Step& step);  // all of them

}  // namespace hearth::gpu
