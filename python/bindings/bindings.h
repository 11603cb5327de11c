// The parts of the module, one file each.
#pragma once

#include "casters.h"

namespace hearth::train {
enum class Ending;
}

namespace hearth::python {

using TensorClass = nb::class_<Tensor>;

void bind_errors(nb::module_& m);
void bind_types(nb::module_& m);                             // dtypes, devices
TensorClass bind_tensor(nb::module_& m);                     // the class and what only it has
void bind_indexing(TensorClass& tensor);                     // x[...], x[...] = y
void bind_exchange(nb::module_& m, TensorClass& tensor);     // NumPy, DLPack, buffers
void bind_elementwise(nb::module_& m, TensorClass& tensor);  // elementwise.inc
void bind_operators(TensorClass& tensor);                    // a + b
void bind_shape_ops(nb::module_& m, TensorClass& tensor);
void bind_reductions(nb::module_& m, TensorClass& tensor);
void bind_contractions(nb::module_& m, TensorClass& tensor);  // products, convolution, pooling, attention
void bind_losses(nb::module_& m);                             // normalisation and losses
void bind_factories(nb::module_& m);                          // zeros, randn, initial values
void bind_autograd(nb::module_& m, TensorClass& tensor);
void bind_compile(nb::module_& m);  // eval, compile, explain
void bind_optim(nb::module_& m);
void bind_data(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_train(nb::module_& m);
void bind_io(nb::module_& m);
void bind_runtime(nb::module_& m);  // configuration, memory, profiles, tuning
void bind_kernels(nb::module_& m);
void bind_llm(nb::module_& m);
void bind_hrm(nb::module_& m);

const char* name_of(train::Ending ending);

// x[index] by NumPy's rules.
Tensor element(const Tensor& x, nb::handle index);

// Computes the tensors, and what was assigned since the last time in this thread (running statistics, weights
// changed by hand), so that the graph of earlier steps does not pile up. Called with the GIL, which it
// releases.
void evaluate(std::vector<Tensor> tensors);
// The computed value of x as a variable of its own: another thread may assign x once the GIL is released.
Tensor computed(const Tensor& x);
// x.assign(value), to be computed with the next evaluate().
void assign(Tensor& x, const Tensor& value);

}  // namespace hearth::python
