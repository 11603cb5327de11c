// Random programs give the same numbers however they are computed: each operation by itself, fused, compiled,
// with gradients, on every device.
//
// $HEARTH_GRAPHS="first,count" runs other programs than the usual ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "compare.h"
#include "hearth/hearth.h"
#include "random_graphs.h"
#include "test_devices.h"

namespace hearth::testing {
namespace {

// While one lives, plans are made at this level.
class AtLevel {
 public:
  explicit AtLevel(OptimizationLevel level) : before_(config()) {
    Config changed = before_;
    changed.optimization_level = level;
    set_config(changed);
  }
  ~AtLevel() { set_config(before_); }
  AtLevel(const AtLevel&) = delete;
  AtLevel& operator=(const AtLevel&) = delete;

 private:
  Config before_;
};

std::vector<Tensor> moved(const std::vector<Tensor>& tensors, Device device) {
  std::vector<Tensor> there;
  for (const Tensor& x : tensors) there.push_back(device.kind == DeviceKind::cpu ? x : x.to(device));
  return there;
}

struct Results {
  std::vector<Tensor> outputs, gradients;
};

// Outputs, and gradients with respect to all floating inputs; with `twice`, gradients of a function of the
// gradients instead.
Results graph(const RandomProgram& program, const std::vector<Tensor>& inputs, bool twice = false) {
  std::vector<Tensor> leaves, differentiated;
  for (const Tensor& input : inputs) {
    Tensor leaf = input.detach();
    if (is_floating(leaf.dtype())) {
      leaf.requires_grad_();
      differentiated.push_back(leaf);
    }
    leaves.push_back(leaf);
  }
  Results results;
  results.outputs = program.outputs(leaves);
  const Tensor loss = RandomProgram::loss(results.outputs);
  if (loss.defined() && loss.requires_grad()) results.gradients = gradients(loss, differentiated, {}, twice);
  if (twice) {
    const Tensor of_slopes = RandomProgram::loss(results.gradients);
    results.gradients.clear();
    if (of_slopes.defined() && of_slopes.requires_grad())
      results.gradients = gradients(of_slopes, differentiated);
  }
  return results;
}

Results evaluated(Results results) {
  std::vector<Tensor> all = results.outputs;
  all.insert(all.end(), results.gradients.begin(), results.gradients.end());
  eval(all);
  return results;
}

double tolerance(DType precision) {
  switch (precision) {
    case DType::f64:
      return 1e-6;  // means of integers are of f32, and so is what is cast
    case DType::f32:
      return 3e-4;
    case DType::f16:
      return 0.03;
    default:
      return 0.15;
  }
}

// Empty, or what differs.
std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                       double tolerance) {
  if (got.size() != expected.size()) return "another count";
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (got[k].shape() != expected[k].shape() || got[k].dtype() != expected[k].dtype())
      return fmt::format("result {} has another shape or dtype", k);
    const auto a = got[k].to(Device{}).to(DType::f64).to_vector<double>();
    const auto b = expected[k].to(DType::f64).to_vector<double>();
    double largest = 5e-3;  // what should be 0 may be a rounding error
    for (const double value : b)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    const double allowed = is_floating(got[k].dtype()) ? tolerance * largest : 0;
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= allowed)
        continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong > 0)
      return fmt::format("result {}: {} of {} elements, element {} is {} instead of {} (largest {})", k,
                         wrong, a.size(), first, a[first], b[first], largest);
  }
  return "";
}

class RandomGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tested_devices().empty()) FAIL() << "the demanded device is not there";
  }
  // Random numbers begin alike before everything that is compared.
  static void begin() { manual_seed(7); }
  static void for_each_seed(const std::function<void(std::uint64_t)>& body) {
    unsigned long long first = 0, count = brief() ? 4 : 150;
    if (const char* wanted = std::getenv("HEARTH_GRAPHS")) std::sscanf(wanted, "%llu,%llu", &first, &count);
    for (std::uint64_t seed = first; seed < first + count; ++seed) body(seed);
  }
};

TEST_F(RandomGraphs, AgreeHoweverTheyAreComputed) {
  for_each_seed([](std::uint64_t seed) {
    const RandomProgram program(seed);
    const double allowed = tolerance(program.precision());
    const Results expected = [&] {
      const AtLevel level(OptimizationLevel::conservative);
      begin();
      return evaluated(graph(program, program.inputs()));
    }();
    const auto check = [&](const Results& got, const std::string& how) {
      const std::string outputs = difference(got.outputs, expected.outputs, allowed);
      EXPECT_EQ(outputs, "") << "seed " << seed << ", outputs " << how << "\n" << program.text();
      const std::string gradients = difference(got.gradients, expected.gradients, 4 * allowed);
      EXPECT_EQ(gradients, "") << "seed " << seed << ", gradients " << how << "\n" << program.text();
    };
    for (const Device device : tested_devices()) {
      const std::vector<Tensor> inputs = moved(program.inputs(), device);
      begin();
      check(evaluated(graph(program, inputs)), "on " + to_string(device));
      {
        const AtLevel level(OptimizationLevel::aggressive);
        begin();
        check(evaluated(graph(program, inputs)), "at level aggressive on " + to_string(device));
      }
      Compiled compiled = compile([&](const std::vector<Tensor>& arguments) {
        Results results = graph(program, arguments);
        results.outputs.insert(results.outputs.end(), results.gradients.begin(), results.gradients.end());
        return results.outputs;
      });
      for (int call = 0; call < 3; ++call) {
        // Other numbers in between, so that a replay that reads old ones shows.
        std::vector<Tensor> arguments;
        for (const Tensor& input : inputs)
          arguments.push_back(call == 1 && is_floating(input.dtype()) ? (input * 0.5).eval() : input);
        begin();
        std::vector<Tensor> all = compiled(arguments);
        if (call == 1) continue;
        Results got;
        got.gradients.assign(all.begin() + static_cast<std::ptrdiff_t>(expected.outputs.size()), all.end());
        all.resize(expected.outputs.size());
        got.outputs = std::move(all);
        check(got, fmt::format("of compiled call {} on {}", call, to_string(device)));
      }
    }
  });
}

TEST_F(RandomGraphs, DerivativesOfDerivativesAgree) {
  for_each_seed([](std::uint64_t seed) {
    const RandomProgram program(seed);
    if (program.precision() != DType::f64) return;
    const Results expected = [&] {
      const AtLevel level(OptimizationLevel::conservative);
      begin();
      return evaluated(graph(program, program.inputs(), true));
    }();
    for (const Device device : tested_devices()) {
      begin();
      const Results got = evaluated(graph(program, moved(program.inputs(), device), true));
      EXPECT_EQ(difference(got.gradients, expected.gradients, 1e-4), "")
          << "seed " << seed << " on " << to_string(device) << "\n"
          << program.text();
    }
  });
}

// A compiled function that changes variables it reads, as a step of training does, against the same done
// eagerly without fusion.
TEST_F(RandomGraphs, VariablesChangeAlikeHoweverTheyAreComputed) {
  for_each_seed([](std::uint64_t seed) {
    const RandomProgram program(seed);
    if (program.precision() != DType::f64 && program.precision() != DType::f32) return;
    const double allowed = 10 * tolerance(program.precision());
    // Every other floating input is a variable, the others and the integers are arguments.
    const auto run = [&](Device device, bool compiled) {
      std::vector<Tensor> variables, arguments;
      std::vector<bool> is_variable;
      for (const Tensor& input : moved(program.inputs(), device)) {
        is_variable.push_back(is_floating(input.dtype()) && variables.size() <= arguments.size());
        if (is_variable.back()) {
          variables.push_back(copy(input).eval());
          variables.back().requires_grad_();
        } else {
          arguments.push_back(input);
        }
      }
      const auto step = [&](const std::vector<Tensor>& given) {
        std::vector<Tensor> inputs;
        std::size_t variable = 0, argument = 0;
        for (const bool next_is_variable : is_variable)
          inputs.push_back(next_is_variable ? variables[variable++] : given[argument++]);
        std::vector<Tensor> outputs = program.outputs(inputs);
        const Tensor loss = RandomProgram::loss(outputs);
        if (!loss.defined() || !loss.requires_grad()) return outputs;
        const std::vector<Tensor> slopes = gradients(loss, variables);
        const NoGrad off;
        // A bounded step, as roundings grow otherwise.
        for (std::size_t k = 0; k < variables.size(); ++k)
          variables[k].assign(variables[k] * 0.9 - 0.1 * tanh(slopes[k]));
        return outputs;
      };
      begin();
      Compiled replayed = compile(step);
      std::vector<Tensor> all;
      for (int call = 0; call < 3; ++call)
        for (const Tensor& output : compiled ? replayed(arguments) : step(arguments))
          all.push_back(copy(output.detach()).eval());
      eval(variables);
      for (const Tensor& variable : variables) all.push_back(variable.detach());
      return all;
    };
    const std::vector<Tensor> expected = [&] {
      const AtLevel level(OptimizationLevel::conservative);
      return run(Device{}, false);
    }();
    for (const Device device : tested_devices())
      for (const bool compiled : {false, true})
        EXPECT_EQ(difference(run(device, compiled), expected, allowed), "")
            << "seed " << seed << (compiled ? ", compiled on " : " on ") << to_string(device) << "\n"
            << program.text();
  });
}

}  // namespace
}  // namespace hearth::testing
