// Products with weights in blocks or in 16 bits whose operands become numbers of one type in memory first,
// for a kernel of matmul.
#pragma once

#include <optional>

#include "gpu/kernels.h"

namespace hearth::gpu {

// That type; nothing where another kernel of quantised_matmul, which chooses (quantised_matmul.cpp), takes
// the operands as they are.
std::optional<DType> converted_type(const GpuDevice& device, const Step& step);

// A tensor, in blocks or not, to the same numbers in another layout or type.
std::unique_ptr<Kernel> make_conversion(GpuDevice& device, const Layout& from, const Layout& to);
std::unique_ptr<Kernel> make_converted_product(GpuDevice& device, const Step& step, DType dtype);

// Backend::rounds_operand, Backend::converts_weights and Backend::fuses_halves, for these products.
std::optional<DType> rounds_operand(const GpuDevice& device, const Step& step);
std::optional<DType> converts_weights(const GpuDevice& device, const Step& step);
bool converted_takes_halves(const GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
