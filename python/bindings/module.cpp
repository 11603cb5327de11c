// The module hearth._core.
#include "bindings.h"

NB_MODULE(_core, m) {
  using namespace hearth::python;
  // Modules that keep tensors alive until the interpreter ends are the rule, not a leak.
  nb::set_leak_warnings(false);
  m.doc() = "Hearth's C++ library.";
  bind_errors(m);
  bind_types(m);
  TensorClass tensor = bind_tensor(m);
  bind_operators(tensor);
  bind_elementwise(m, tensor);
  bind_indexing(tensor);
  bind_exchange(m, tensor);
  bind_shape_ops(m, tensor);
  bind_reductions(m, tensor);
  bind_contractions(m, tensor);
  bind_losses(m);
  bind_autograd(m, tensor);
  bind_compile(m);
  bind_optim(m);
  bind_data(m);
  bind_metrics(m);
  bind_train(m);
  bind_io(m);
  bind_runtime(m);
  bind_kernels(m);
  bind_llm(m);
  bind_hrm(m);
  bind_factories(m);
}
