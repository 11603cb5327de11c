// Functions that make tensors.
#include "bindings.h"
#include "hearth/init.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth::python {
namespace {

// Makes on `device` where one is given. Factories build nodes only, so this costs nothing.
template <typename Make>
Tensor on(const std::optional<DeviceIn>& device, bool requires_grad, Make make) {
  std::optional<DeviceScope> scope;
  if (device) scope.emplace(Device(*device));
  Tensor result = make();
  if (requires_grad) result.requires_grad_();
  return result;
}

init::Nonlinearity nonlinearity(const std::string& name) {
  for (const auto& [known, value] :
       {std::pair{"linear", init::Nonlinearity::linear}, std::pair{"sigmoid", init::Nonlinearity::sigmoid},
        std::pair{"tanh", init::Nonlinearity::tanh}, std::pair{"relu", init::Nonlinearity::relu},
        std::pair{"leaky_relu", init::Nonlinearity::leaky_relu}, std::pair{"selu", init::Nonlinearity::selu}})
    if (name == known) return value;
  throw ValueError("[init] unknown nonlinearity '" + name + "'");
}

init::KaimingOptions kaiming(double slope, const std::string& mode, const std::string& name) {
  if (mode != "fan_in" && mode != "fan_out")
    throw ValueError("[init] mode is fan_in or fan_out, not '" + mode + "'");
  return {slope, mode == "fan_in" ? init::Fan::in : init::Fan::out, nonlinearity(name)};
}

}  // namespace

void bind_factories(nb::module_& m) {
  const auto sized = [&](const char* name, auto make, const char* doc) {
    m.def(
        name,
        [make](const nb::args& size, const DTypeIn& dtype, const std::optional<DeviceIn>& device,
               bool requires_grad) {
          const Shape shape = shape_of(size);
          return on(device, requires_grad, [&] { return make(shape, dtype); });
        },
        "size"_a, nb::kw_only(), "dtype"_a = DType::f32, "device"_a = nb::none(), "requires_grad"_a = false,
        doc);
  };
  sized(
      "zeros", [](const Shape& shape, DType dtype) { return zeros(shape, dtype); },
      "Zeros; sizes one by one or as a tuple or list.");
  sized(
      "ones", [](const Shape& shape, DType dtype) { return ones(shape, dtype); }, "Ones.");
  sized(
      "empty", [](const Shape& shape, DType dtype) { return zeros(shape, dtype); },
      "Zeros: Hearth does not show memory that nobody wrote.");
  sized(
      "rand", [](const Shape& shape, DType dtype) { return rand(shape, dtype); }, "Uniform in [0, 1).");
  sized(
      "randn", [](const Shape& shape, DType dtype) { return randn(shape, dtype); },
      "Normal, mean 0, deviation 1.");

  m.def(
      "full",
      [](const Shape& shape, double value, const DTypeIn& dtype, const std::optional<DeviceIn>& device) {
        return on(device, false, [&] { return full(shape, value, dtype); });
      },
      "shape"_a, "value"_a, "dtype"_a = DType::f32, "device"_a = nb::none(), "One number everywhere.");
  m.def("zeros_like", given(&zeros_like), "x"_a, "Zeros of the shape, dtype and device of x.");
  m.def("ones_like", given(&ones_like), "x"_a, "Ones of the shape, dtype and device of x.");
  m.def("full_like", given(&full_like), "x"_a, "value"_a, "One number in the shape, dtype and device of x.");
  m.def(
      "rand_like",
      [](const In& x) {
        const DeviceScope here(x->device());
        return rand(x->shape(), x->dtype());
      },
      "x"_a, "Uniform in [0, 1), like x.");
  m.def(
      "randn_like",
      [](const In& x) {
        const DeviceScope here(x->device());
        return randn(x->shape(), x->dtype());
      },
      "x"_a, "Normal, like x.");
  m.def(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, const std::optional<DTypeIn>& dtype,
         const std::optional<DeviceIn>& device) {
        const auto whole = [](nb::handle value) { return value.is_none() || PyIndex_Check(value.ptr()); };
        const DType chosen = dtype                                        ? DType(*dtype)
                             : whole(start) && whole(stop) && whole(step) ? DType::i64
                                                                          : DType::f32;
        const auto number = [](nb::handle value, double otherwise) {
          return value.is_none() ? otherwise : nb::cast<double>(nb::float_(value));
        };
        const double first = stop.is_none() ? 0 : number(start, 0);
        const double last = stop.is_none() ? number(start, 0) : number(stop, 0);
        return on(device, false, [&] { return arange(first, last, number(step, 1), chosen); });
      },
      "start"_a, "end"_a = nb::none(), "step"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(),
      "device"_a = nb::none(),
      nb::sig("def arange(start: float, end: float | None = None, step: float | None = None, *, dtype: dtype "
              "| str | None = None, device: Device | str | None = None) -> Tensor"),
      "start, start + step, ... before end; arange(n) counts from 0. int64 for whole numbers, else float32.");
  m.def(
      "linspace",
      [](double start, double end, std::int64_t steps, const DTypeIn& dtype) {
        return linspace(start, end, steps, dtype);
      },
      "start"_a, "end"_a, "steps"_a, "dtype"_a = DType::f32, "Evenly spaced numbers, both ends included.");
  m.def(
      "eye",
      [](std::int64_t rows, std::optional<std::int64_t> columns, const DTypeIn& dtype) {
        return eye(rows, columns.value_or(-1), dtype);
      },
      "n"_a, "m"_a = nb::none(), "dtype"_a = DType::f32, "Ones on the diagonal.");
  m.def(
      "randint",
      [](std::int64_t low, std::int64_t high, const Shape& shape, const DTypeIn& dtype) {
        return randint(low, high, shape, dtype);
      },
      "low"_a, "high"_a, "size"_a, "dtype"_a = DType::i64, "Whole numbers in [low, high).");
  m.def(
      "randperm", [](std::int64_t n) { return randperm(n); }, "n"_a, "0 to n - 1 in random order.");
  m.def(
      "bernoulli",
      [](const Shape& shape, double p, const DTypeIn& dtype) { return bernoulli(shape, p, dtype); },
      "shape"_a, "p"_a, "dtype"_a = DType::bool_, "True with probability p.");
  m.def(
      "multinomial", [](const In& weights, std::int64_t count) { return multinomial(weights, count); },
      "weights"_a, "num_samples"_a, "Indices drawn with the given weights (last axis), with replacement.");
  m.def("manual_seed", &manual_seed, "seed"_a, "Seeds the generator from which all random numbers come.");
  m.def(
      "get_rng_state",
      [] {
        const auto state = default_generator().state();
        return std::pair(state.seed, state.offset);
      },
      "Seed and position of the generator.");
  m.def(
      "set_rng_state",
      [](const std::pair<std::uint64_t, std::uint64_t>& state) {
        default_generator().set_state({state.first, state.second});
      },
      "state"_a);

  nb::module_ i =
      m.def_submodule("init", "Initial values of parameters; every function returns a new tensor.");
  i.def(
      "uniform", [](const Shape& shape, double low, double high) { return init::uniform(shape, low, high); },
      "shape"_a, "low"_a = 0.0, "high"_a = 1.0);
  i.def(
      "normal", [](const Shape& shape, double mean, double std) { return init::normal(shape, mean, std); },
      "shape"_a, "mean"_a = 0.0, "std"_a = 1.0);
  i.def(
      "truncated_normal",
      [](const Shape& shape, double mean, double std, double low, double high) {
        return init::truncated_normal(shape, mean, std, low, high);
      },
      "shape"_a, "mean"_a = 0.0, "std"_a = 1.0, "a"_a = -2.0, "b"_a = 2.0);
  i.def(
      "xavier_uniform", [](const Shape& shape, double gain) { return init::xavier_uniform(shape, gain); },
      "shape"_a, "gain"_a = 1.0);
  i.def(
      "xavier_normal", [](const Shape& shape, double gain) { return init::xavier_normal(shape, gain); },
      "shape"_a, "gain"_a = 1.0);
  i.def(
      "kaiming_uniform",
      [](const Shape& shape, double a, const std::string& mode, const std::string& name) {
        return init::kaiming_uniform(shape, kaiming(a, mode, name));
      },
      "shape"_a, "a"_a = 0.0, "mode"_a = "fan_in", "nonlinearity"_a = "leaky_relu");
  i.def(
      "kaiming_normal",
      [](const Shape& shape, double a, const std::string& mode, const std::string& name) {
        return init::kaiming_normal(shape, kaiming(a, mode, name));
      },
      "shape"_a, "a"_a = 0.0, "mode"_a = "fan_in", "nonlinearity"_a = "leaky_relu");
  i.def(
      "orthogonal", [](const Shape& shape, double gain) { return init::orthogonal(shape, gain); }, "shape"_a,
      "gain"_a = 1.0);
  i.def(
      "fan_in", [](const Shape& shape) { return init::fan_size(shape, init::Fan::in); }, "shape"_a);
  i.def(
      "gain", [](const std::string& name, double slope) { return init::gain(nonlinearity(name), slope); },
      "nonlinearity"_a, "slope"_a = 0.01);
}

}  // namespace hearth::python
