// Candidates for a product or a convolution, and what decides between them.
#include "gpu/contraction_choice.h"

#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "gpu/kernel_cache.h"
#include "gpu/library_kernel.h"
#include "gpu/tuner.h"
#include "gpu/workbench.h"
#include "hearth/config.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// Multiplications below which the ways do not differ enough to ask, and from which a library that nobody has
// measured is worth its check.
constexpr double worth_asking = 1 << 21, worth_a_check = 1 << 27;

// The problem as the tuning file names it: the operation on an architecture, and what follows it.
std::string problem_text(const GpuDevice& device, const Contraction& contraction) {
  std::string text = fmt::format("{} {}", device.target().architecture, contraction.text);
  const bool switched_off = device.target().matrix == MatrixUnit::none &&
                            target_of(device.architecture()).matrix != MatrixUnit::none;
  return switched_off ? text + " without matrix unit" : text;
}
std::string expression_text(const Step& step) {
  if (step.expression.instructions.empty()) return "";
  Hasher hasher;
  add_text(hasher, operation_functions(step.expression));
  add_text(hasher, expression_body(step.expression, ""));
  for (const std::uint16_t output : step.expression.outputs) hasher.add(output);
  for (std::size_t i = 2; i < step.inputs.size(); ++i) {
    hasher.add(static_cast<int>(step.inputs[i].dtype));
    hasher.add(step.inputs[i].strides);
  }
  for (const Layout& output : step.outputs) hasher.add(static_cast<int>(output.dtype));
  return fmt::format("{} then {:016x}", step.halves ? " in halves" : "", hasher.finish().low);
}

class Choice {
 public:
  Choice(GpuDevice& device, const Step& step, const Contraction& contraction)
      : device_(device),
        step_(step),
        contraction_(contraction),
        plain_problem_(problem_text(device, contraction)),
        problem_(plain_problem_ + expression_text(step)) {}

  const std::string& problem() const { return problem_; }

  std::unique_ptr<Kernel> own() const { return contraction_.own[0].make(step_); }

  // Null where there is none of that name. A library that fails is refused for `problem`.
  std::unique_ptr<Kernel> named(const std::string& name, const std::string& problem) const {
    for (const OwnWay& way : contraction_.own)
      if (name == way.name) return way.make(step_);
    for (const LibraryWays& library : libraries()) {
      if (!name.starts_with(library.name + " ")) continue;
      try {
        auto call = library.call(std::string_view(name).substr(library.name.size() + 1));
        if (call) return by_library(problem, name, std::move(call));
      } catch (const LibraryError&) {  // it does not know it any more
      }
    }
    return nullptr;
  }

  // The library's favourite, where it computes the right thing.
  std::unique_ptr<Kernel> by_default() {
    for (const LibraryWays& library : libraries()) {
      if (!library.by_default) continue;
      for (const TuningCandidate& candidate : candidates_of(library, 1))
        if (tuner().admit(plain_problem_, candidate))
          if (auto kernel = named(candidate.name, plain_problem_)) return kernel;
    }
    return own();
  }

  std::unique_ptr<Kernel> by_measurement(bool exhaustive) {
    std::vector<TuningCandidate> candidates = own_candidates(exhaustive);
    for (const LibraryWays& library : libraries())
      for (TuningCandidate& candidate : candidates_of(library, exhaustive ? most_calls : 3))
        candidates.push_back(std::move(candidate));
    if (candidates.size() < 2) return own();
    bench_ = std::make_unique<Workbench>(device_, step_);
    const TuningEntry entry = tuner().measure(problem_, candidates, exhaustive);
    bench_.reset();
    plain_bench_.reset();
    return fastest(entry);
  }

  std::unique_ptr<Kernel> fastest(const TuningEntry& entry) const {
    for (const std::string& name : entry.ranking()) try {
        if (auto kernel = named(name, problem_)) return kernel;
      } catch (const KernelError&) {  // not with what the configuration allows now
      }
    return own();
  }

 private:
  // A library's result is the whole step or comes before its expression.
  std::vector<LibraryWays> libraries() const {
    const bool fits = !step_.expression.instructions.empty() ||
                      (step_.outputs.size() == 1 && step_.outputs[0].dtype == step_.inputs[0].dtype);
    // Libraries use the matrix unit unasked.
    if (!fits || !config().enable_matrix_cores) return {};
    return contraction_.libraries();
  }

  std::vector<TuningCandidate> own_candidates(bool exhaustive) {
    std::vector<TuningCandidate> candidates;
    for (const OwnWay& way : contraction_.own) {
      if (!way.likely && !exhaustive) continue;
      std::shared_ptr<const Kernel> kernel;
      try {
        kernel = way.make(step_);
      } catch (const KernelError&) {  // it does not fit
        continue;
      } catch (const CompileError&) {  // nor does the compiler take it
        continue;
      }
      candidates.push_back({way.name, "", {}, [this, kernel] { return bench_->seconds(*kernel); }});
    }
    return candidates;
  }

  std::vector<TuningCandidate> candidates_of(const LibraryWays& library, int most) {
    const std::string on_device = fmt::format("{} {}", device_.target().architecture, library.name);
    LibraryCalls calls;
    try {
      tuner().ask(on_device, [&] { calls = library.calls(most); });
    } catch (const LibraryError&) {  // it knows none
    }
    std::vector<TuningCandidate> candidates;
    for (auto& found : calls) {
      const std::shared_ptr<const LibraryCall> call = std::move(found);
      candidates.push_back({fmt::format("{} {}", library.name, call->name()), on_device, check_of(call),
                            [this, call] { return seconds_of(call); }});
    }
    return candidates;
  }

  std::unique_ptr<Kernel> by_library(const std::string& problem, const std::string& name,
                                     std::shared_ptr<const LibraryCall> call) const {
    return make_library_kernel(
        device_, step_, std::move(call), own(),
        [problem, name](const std::string& reason) { tuner().refuse(problem, name, reason); });
  }

  // Of the whole step by a library.
  double seconds_of(std::shared_ptr<const LibraryCall> call) const {
    std::string problem;
    const auto kernel = make_library_kernel(device_, step_, std::move(call), own(),
                                            [&](const std::string& reason) { problem = reason; });
    const double seconds = bench_->seconds(*kernel);
    if (!problem.empty()) throw LibraryError(problem);  // that was the time of our own kernel
    return seconds;
  }

  // The operation alone: a comparison after it could turn a rounding into another truth.
  std::function<void()> check_of(std::shared_ptr<const LibraryCall> call) {
    return [this, call = std::move(call)] {
      if (!plain_bench_) {
        plain_step_ = without_expression(step_);
        plain_bench_ = std::make_unique<Workbench>(device_, plain_step_);
        plain_bench_->set_reference(*contraction_.own[0].make(plain_step_));
      }
      const auto run = [&](StreamHandle stream, void* result, void* workspace) {
        call->run(stream, plain_bench_->input(0), plain_bench_->input(1), result, workspace);
      };
      plain_bench_->compare(contraction_.depth, call->workspace_bytes(), run);
    };
  }

  GpuDevice& device_;
  const Step& step_;
  const Contraction& contraction_;
  std::string plain_problem_, problem_;
  Step plain_step_;
  std::unique_ptr<Workbench> bench_, plain_bench_;
};

}  // namespace

std::unique_ptr<Kernel> choose_way(GpuDevice& device, const Step& step, const Contraction& contraction) {
  if (contraction.multiplications < worth_asking) return contraction.own[0].make(step);
  Choice choice(device, step, contraction);
  const Config current = config();
  const bool tuning = current.enable_tuning || current.optimization_level == OptimizationLevel::aggressive;
  const bool exhaustive = tuning && exhaustive_tuning();
  try {
    const auto entry = tuner().find(choice.problem());
    if (entry && (entry->exhaustive || !exhaustive)) return choice.fastest(*entry);
    if (tuning) return choice.by_measurement(exhaustive);
    if (contraction.multiplications >= worth_a_check) return choice.by_default();
  } catch (const OutOfMemory&) {  // no room to try: it may be needed for the work itself
    device.pool().empty_cache();
  }
  return choice.own();
}

std::unique_ptr<Kernel> make_way(GpuDevice& device, const Step& step, const Contraction& contraction,
                                 const std::string& name) {
  const Choice choice(device, step, contraction);
  return choice.named(name, choice.problem());
}

}  // namespace hearth::gpu
