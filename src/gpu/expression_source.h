// C++ text for an Expression: what the elementwise table says, for one element.
#pragma once

#include <string>

#include "device/step.h"

namespace hearth::gpu {

// The storage type of a dtype in kernel source: "f32", "bf16", "bool".
std::string_view storage_type(DType dtype);
// The type that its values are computed in.
std::string_view compute_type(DType dtype);

// Functions op_<name> for every operation of the expression. Goes before the kernel.
std::string operation_functions(const Expression& expression);

// Statements that compute v<n> for each instruction, given v0.. for the inputs and c0.. for the immediates;
// of outputs also s<n>, the same as it is stored.
std::string expression_body(const Expression& expression, std::string_view indent);

// The name of a value in those statements, and what to store of it.
std::string value_name(const Expression& expression, std::size_t value);
std::string stored_value(const Expression& expression, std::size_t value, DType dtype);

}  // namespace hearth::gpu
