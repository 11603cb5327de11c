// By the product's own kernel where it can, else by two kernels.
#include "gpu/normed_product.h"

#include <algorithm>

#include "gpu/kernels.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/product_choice.h"

namespace hearth::gpu {
namespace {

class NormedAfterwards final : public Kernel {
 public:
  // in_place: rows are so short that the norm has all of one in registers before it writes.
  NormedAfterwards(GpuDevice& device, const Step& step, std::unique_ptr<Kernel> product, bool in_place)
      : product_(std::move(product)) {
    const Layout& result = step.outputs[0];
    if (!in_place)
      bytes_ =
          (static_cast<std::size_t>(element_count(result.shape)) * dtype_size(result.dtype) + 63) / 64 * 64;
    Step norm;
    norm.op = Op::rms_norm;
    norm.attributes = NormAttributes{*step.normed};
    norm.domain = result.shape;
    norm.inputs = norm.outputs = {result};
    norm_ = make_normalisation(device, norm);
  }

  std::size_t scratch_bytes() const override {
    return bytes_ + std::max(product_->scratch_bytes(), norm_->scratch_bytes());
  }

  void run(const KernelArguments& arguments) const override {
    void* const plain = bytes_ > 0 ? arguments.scratch : arguments.outputs[0];
    void* const scratch = static_cast<char*>(arguments.scratch) + bytes_;
    product_->run({arguments.inputs, &plain, arguments.numbers, scratch});
    norm_->run({&plain, arguments.outputs, nullptr, scratch});
  }

 private:
  std::unique_ptr<Kernel> product_, norm_;
  std::size_t bytes_ = 0;  // of the product before the norm
};

}  // namespace

std::unique_ptr<Kernel> make_normed_product(GpuDevice& device, const Step& step) {
  Step plain = step;
  plain.normed.reset();
  const bool by_wgmma = wgmma_norms(device, plain);
  auto afterwards = std::make_unique<NormedAfterwards>(
      device, step,
      by_wgmma ? make_matmul(device, plain, MatmulVariant::mma_large) : choose_product(device, plain),
      by_wgmma);
  if (!by_wgmma) return afterwards;
  return make_wgmma(device, step, MatmulVariant::automatic, std::move(afterwards));
}

}  // namespace hearth::gpu
