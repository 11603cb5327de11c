// Candidates for a product, and what decides between them.
#include "gpu/product_choice.h"

#include <fmt/format.h>

#include <charconv>

#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/kernel_cache.h"
#include "gpu/library_product.h"
#include "gpu/matmul.h"
#include "gpu/tuner.h"
#include "gpu/workbench.h"
#include "hearth/config.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// Multiplications below which the ways do not differ enough to ask, and from which a library that nobody has
// measured is worth its check.
constexpr double worth_asking = 1 << 21, worth_a_check = 1 << 27;

struct OwnVariant {
  const char* name;
  MatmulVariant variant;
  bool likely;  // to be the fastest, where there is a matrix unit
};
constexpr OwnVariant own_variants[] = {
    {"own", MatmulVariant::automatic, true},
    {"own wgmma_256", MatmulVariant::wgmma_256, true},
    {"own wgmma_192", MatmulVariant::wgmma_192, true},
    {"own wgmma_128", MatmulVariant::wgmma_128, true},
    {"own wgmma_turns", MatmulVariant::wgmma_turns, true},
    {"own mma_large", MatmulVariant::mma_large, true},
    {"own mma_small", MatmulVariant::mma_small, true},
    {"own fma_large", MatmulVariant::fma_large, false},
    {"own fma_small", MatmulVariant::fma_small, false},
    {"own skinny", MatmulVariant::skinny, true},
};

// The problem as the tuning file names it: the product, and what follows it.
std::string product_text(const GpuDevice& device, const PlainProduct& product) {
  std::string text = fmt::format("{} matmul {}", device.target().architecture, product.text());
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
  return fmt::format(" then {:016x}", hasher.finish().low);
}

// A library's product is the whole step or comes before its expression.
bool library_fits(const Step& step) {
  return !step.expression.instructions.empty() ||
         (step.outputs.size() == 1 && step.outputs[0].dtype == step.inputs[0].dtype);
}

std::vector<const ProductLibrary*> allowed_libraries(GpuDevice& device, const Step& step) {
  const Config current = config();
  // Libraries use the matrix unit unasked.
  if (!current.vendor_blas_enabled || !current.enable_matrix_cores || !library_fits(step)) return {};
  return product_libraries(device);
}

class Choice {
 public:
  Choice(GpuDevice& device, const Step& step, const PlainProduct& product)
      : device_(device),
        step_(step),
        product_(product),
        plain_problem_(product_text(device, product)),
        problem_(plain_problem_ + expression_text(step)) {}

  const std::string& problem() const { return problem_; }

  std::unique_ptr<Kernel> own(MatmulVariant variant = MatmulVariant::automatic) const {
    return make_matmul(device_, step_, variant);
  }

  // Null where there is none of that name.
  std::unique_ptr<Kernel> named(std::string_view name) const {
    for (const OwnVariant& variant : own_variants)
      if (name == variant.name) return own(variant.variant);
    for (const ProductLibrary* library : allowed_libraries(device_, step_)) {
      if (!name.starts_with(library->name() + " #")) continue;
      const std::string_view digits = name.substr(library->name().size() + 2);
      int index = -1;
      std::from_chars(digits.data(), digits.data() + digits.size(), index);
      auto calls = library->calls(product_, index + 1);
      if (index < 0 || static_cast<std::size_t>(index) >= calls.size()) return nullptr;
      return by_library(problem_, std::string(name), std::move(calls[static_cast<std::size_t>(index)]));
    }
    return nullptr;
  }

  // The library's favourite, where it computes the right thing.
  std::unique_ptr<Kernel> by_default() {
    for (const ProductLibrary* library : allowed_libraries(device_, step_)) {
      if (!library->by_default()) continue;
      auto calls = library->calls(product_, 1);
      if (calls.empty()) continue;
      const std::shared_ptr<const ProductCall> call = std::move(calls[0]);
      const std::string name = library->name() + " #0";
      if (tuner().admit(plain_problem_, {name, library_on_device(*library), check_of(call), {}}))
        return by_library(plain_problem_, name, call);
    }
    return own();
  }

  std::unique_ptr<Kernel> by_measurement(bool exhaustive) {
    bench_ = std::make_unique<Workbench>(device_, step_);
    std::vector<TuningCandidate> candidates = own_candidates(exhaustive);
    const int most = exhaustive ? 16 : 3;
    for (const ProductLibrary* library : allowed_libraries(device_, step_)) {
      int index = 0;
      for (auto& found : library->calls(product_, most)) {
        const std::shared_ptr<const ProductCall> call = std::move(found);
        candidates.push_back({fmt::format("{} #{}", library->name(), index++), library_on_device(*library),
                              check_of(call), [this, call] { return seconds_of(call); }});
      }
    }
    const TuningEntry entry = tuner().measure(problem_, candidates, exhaustive);
    bench_.reset();
    plain_bench_.reset();
    return fastest(entry);
  }

  std::unique_ptr<Kernel> fastest(const TuningEntry& entry) const {
    for (const std::string& name : entry.ranking()) try {
        if (auto kernel = named(name)) return kernel;
      } catch (const KernelError&) {  // not with what the configuration allows now
      }
    return own();
  }

 private:
  std::vector<TuningCandidate> own_candidates(bool exhaustive) {
    std::vector<TuningCandidate> candidates;
    const bool unit = has_matrix_unit(device_.target(), product_.dtype);
    for (const OwnVariant& variant : own_variants) {
      if (!variant.likely && !exhaustive && unit) continue;
      std::shared_ptr<const Kernel> kernel;
      try {
        kernel = own(variant.variant);
      } catch (const KernelError&) {  // it does not fit
        continue;
      } catch (const CompileError&) {  // nor does the compiler take it
        continue;
      }
      candidates.push_back({variant.name, "", {}, [this, kernel] { return bench_->seconds(*kernel); }});
    }
    return candidates;
  }

  std::string library_on_device(const ProductLibrary& library) const {
    return fmt::format("{} {}", device_.target().architecture, library.name());
  }

  std::unique_ptr<Kernel> by_library(const std::string& problem, const std::string& name,
                                     std::shared_ptr<const ProductCall> call) const {
    return make_library_product(
        device_, step_, product_, std::move(call), own(),
        [problem, name](const std::string& reason) { tuner().refuse(problem, name, reason); });
  }

  // Of the whole step by a library.
  double seconds_of(std::shared_ptr<const ProductCall> call) const {
    std::string problem;
    const auto kernel = make_library_product(device_, step_, product_, std::move(call), own(),
                                             [&](const std::string& reason) { problem = reason; });
    const double seconds = bench_->seconds(*kernel);
    if (!problem.empty()) throw BlasError(problem);  // that was the time of our own kernel
    return seconds;
  }

  // The product alone: a comparison after it could turn a rounding into another truth.
  std::function<void()> check_of(std::shared_ptr<const ProductCall> call) {
    return [this, call = std::move(call)] {
      if (!plain_bench_) {
        plain_step_ = without_expression(step_);
        plain_bench_ = std::make_unique<Workbench>(device_, plain_step_);
        plain_bench_->set_reference(*make_matmul(device_, plain_step_, MatmulVariant::automatic));
      }
      const auto run = [&](StreamHandle stream, void* result, void* workspace) {
        call->run(stream, plain_bench_->input(0), plain_bench_->input(1), result, workspace);
      };
      plain_bench_->compare(product_, call->workspace_bytes(), run);
    };
  }

  GpuDevice& device_;
  const Step& step_;
  const PlainProduct& product_;
  std::string plain_problem_, problem_;
  Step plain_step_;
  std::unique_ptr<Workbench> bench_, plain_bench_;
};

}  // namespace

std::unique_ptr<Kernel> choose_product(GpuDevice& device, const Step& step) {
  const std::optional<PlainProduct> product = plain_product(step);
  if (!product || product->multiplications() < worth_asking)
    return make_matmul(device, step, MatmulVariant::automatic);
  Choice choice(device, step, *product);
  const Config current = config();
  const bool tuning = current.enable_tuning || current.optimization_level == OptimizationLevel::aggressive;
  const bool exhaustive = tuning && exhaustive_tuning();
  try {
    const auto entry = tuner().find(choice.problem());
    if (entry && (entry->exhaustive || !exhaustive)) return choice.fastest(*entry);
    if (tuning) return choice.by_measurement(exhaustive);
    if (product->multiplications() >= worth_a_check) return choice.by_default();
  } catch (const OutOfMemory&) {  // no room to try: it may be needed for the work itself
    device.pool().empty_cache();
  }
  return choice.own();
}

std::unique_ptr<Kernel> make_product(GpuDevice& device, const Step& step, const std::string& name) {
  const std::optional<PlainProduct> product = plain_product(step);
  return product ? Choice(device, step, *product).named(name) : nullptr;
}

}  // namespace hearth::gpu
