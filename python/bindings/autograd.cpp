// Gradients, and the modes of a thread: no_grad, autocast, device.
#include <memory>

#include "bindings.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/precision.h"

namespace hearth::python {
namespace {

// A mode of this thread that `with` begins and ends. One object may be entered several times, one within the
// other.
template <typename Mode, typename... Arguments>
class Scope {
 public:
  explicit Scope(Arguments... arguments) : arguments_(std::move(arguments)...) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  void enter() {
    std::apply([&](const auto&... arguments) { modes_.push_back(std::make_unique<Mode>(arguments...)); },
               arguments_);
  }
  void exit() { modes_.pop_back(); }

 private:
  std::tuple<Arguments...> arguments_;
  std::vector<std::unique_ptr<Mode>> modes_;
};

template <typename S>
nb::class_<S> bind_scope(nb::module_& m, const char* name, const char* doc) {
  return nb::class_<S>(m, name, doc)
      .def(
          "__enter__",
          [](nb::handle_t<S> self) {
            nb::inst_ptr<S>(self)->enter();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> typing.Self"))
      .def("__exit__", [](S& self, const nb::args&) { self.exit(); });
}

using NoGradScope = Scope<NoGrad>;
using AutocastScope = Scope<Autocast, std::optional<DType>>;
using DeviceScopeScope = Scope<DeviceScope, Device>;

}  // namespace

void bind_autograd(nb::module_& m, TensorClass& tensor) {
  tensor
      .def_prop_rw(
          "requires_grad", &Tensor::requires_grad, [](Tensor& x, bool value) { x.requires_grad_(value); },
          "Whether backward() passes here.")
      .def(
          "requires_grad_",
          [](nb::handle_t<Tensor> self, bool value) {
            tensor_of(self).requires_grad_(value);
            return nb::borrow(self);
          },
          "value"_a = true, nb::sig("def requires_grad_(self, value: bool = True) -> Tensor"),
          "Makes this a leaf whose gradient backward() computes.")
      .def_prop_ro("is_leaf", &Tensor::is_leaf, "Whether gradients end here.")
      .def_prop_rw(
          "grad",
          [](const Tensor& x) -> std::optional<Tensor> {
            Tensor gradient = x.grad();
            return gradient.defined() ? std::optional(gradient) : std::nullopt;
          },
          [](Tensor& x, const MaybeIn& gradient) { x.set_grad(gradient); }, nb::arg().none(),
          "The gradient that backward() has accumulated, or None.")
      .def("zero_grad", &Tensor::zero_grad, "Forgets the gradient.")
      .def("detach", &Tensor::detach, "The same value, cut off from the graph of gradients.")
      .def_prop_ro("data", &Tensor::detach, "detach()")
      .def(
          "backward",
          [](const Tensor& x, const MaybeIn& seed, std::optional<bool>) {
            std::vector<Tensor> changed = x.backward(seed);
            if (tracing()) return;
            // The value with its gradients: one plan computes what they share once.
            changed.push_back(x);
            evaluate(changed);
          },
          "gradient"_a = nb::none(), "retain_graph"_a = nb::none(),
          "Adds d(this)/d(leaf) to the gradient of every leaf, and computes this and the gradients. The "
          "graph is there as long as the tensor, whatever retain_graph says.");

  m.def(
      "gradients",
      [](const In& output, const std::vector<Tensor>& inputs, const MaybeIn& seed, bool create_graph) {
        return gradients(output, inputs, seed, create_graph);
      },
      "output"_a, "inputs"_a, "grad_output"_a = nb::none(), "create_graph"_a = false,
      "Gradients of a scalar with respect to tensors; touches no .grad.");
  m.def("is_grad_enabled", &grad_enabled, "Whether operations in this thread are recorded for gradients.");

  bind_scope<NoGradScope>(m, "_NoGrad", "While in it, operations are not recorded for gradients.")
      .def(nb::init<>());
  bind_scope<AutocastScope>(m, "_Autocast", "While in it, layers multiply matrices in a 16-bit type.")
      .def(
          "__init__",
          [](AutocastScope* self, const std::optional<DTypeIn>& dtype) {
            new (self) AutocastScope(dtype ? std::optional(DType(*dtype)) : std::nullopt);
          },
          "dtype"_a.none());
  bind_scope<DeviceScopeScope>(m, "_DeviceScope", "While in it, this thread makes tensors on another device.")
      .def(
          "__init__",
          [](DeviceScopeScope* self, const DeviceIn& device) { new (self) DeviceScopeScope(Device(device)); },
          "device"_a);
  m.def("autocast_dtype", &Autocast::active, "The type that layers cast to now, or None.");
}

}  // namespace hearth::python
