#include "gpu/block_product.h"

#include <fmt/format.h>

namespace hearth::gpu {
namespace {

// The product alone: without a norm before it and what is rounded behind it, and with a result for each pair
// of columns where those are stored.
Step bare(const Step& step) {
  Step plain = step;
  if (step.rounds) {
    plain.outputs.pop_back();
    if (step.rounds->weighted) plain.inputs.pop_back();
    plain.rounds.reset();
  }
  if (norm_of(step) != nullptr) {
    plain.inputs.pop_back();
    plain.attributes = {};
  }
  if (step.stored) {
    plain.stored.reset();
    plain.inputs.resize(2);
    plain.halves = true;
    plain.domain[1] /= 2;
    plain.outputs = {{step.inputs[0].dtype, plain.domain, contiguous_strides(plain.domain)}};
  }
  return plain;
}

std::uint64_t blocks_of(const Layout& weight) {
  if (!is_quantised(weight.dtype)) return 0;
  return static_cast<std::uint64_t>(element_count(weight.shape) / block_elements(weight.dtype));
}

}  // namespace

Step as_matmul(const Step& step) {
  Step turned = step;
  turned.op = Op::matmul;
  Layout& weight = turned.inputs[1];
  std::swap(weight.shape[0], weight.shape[1]);
  std::swap(weight.strides[0], weight.strides[1]);
  return turned;
}

const NormAttributes* norm_of(const Step& step) { return std::get_if<NormAttributes>(&step.attributes); }

bool norm_fits(const Step& product, const Step& norm) {
  return product.op == Op::quantised_matmul && norm_of(product) == nullptr &&
         norm.inputs[0].dtype == product.inputs[0].dtype && norm.inputs[1].dtype == DType::f32 &&
         norm.inputs[1].contiguous();
}

BlockProduct::BlockProduct(GpuDevice& device, const Step& step)
    : MatmulKernel(device, as_matmul(bare(step))),
      format_(step.inputs[1].dtype),
      finish_(product_, step.rounds.has_value()),
      rounds_(step.rounds),
      steady_weights_((step.steady & 2) != 0),
      blocks_(blocks_of(step.inputs[1])),
      inputs_(step.inputs.size() - (rounds_ && rounds_->weighted ? 1 : 0)) {
  if (step.stored) stored_.emplace(device, step);
  if (const NormAttributes* norm = norm_of(step)) epsilon_ = static_cast<float>(norm->epsilon);
}

void BlockProduct::add_norm(Arguments& values, const KernelArguments& arguments) const {
  if (!epsilon_) return;
  values.add(arguments.inputs[inputs_ - 1]);
  values.add(*epsilon_);
}

std::string BlockProduct::ending_parameters() const {
  return stored_ ? fmt::format(", {} heads", stored_->type()) : finish_.parameters;
}

void BlockProduct::add_ending(Arguments& values, const KernelArguments& arguments, Ending& ending) const {
  if (stored_) {
    ending.heads = stored_->arguments(arguments);
    values.add(ending.heads);
  } else {
    add_finish(values, arguments, ending.constants);
  }
}

std::string BlockProduct::kernel_text(std::string_view body, std::string_view header) const {
  return fmt::format("{}#include \"{}\"\n{}using namespace quantised;\n{}{}", matmul_beginning(product_),
                     header, stored_ ? "#include \"stored_heads.h\"\n" : "", finish_.structure, body);
}

}  // namespace hearth::gpu
