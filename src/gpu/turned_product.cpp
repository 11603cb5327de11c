// A table of angles, then the product: by a kernel that turns what it stores, or by any other and a rope of
// its columns in place.
#include "gpu/turned_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/matmul_kernel.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/product_choice.h"
#include "gpu/rope_angles.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

Step without_turn(const Step& step) {
  Step plain = step;
  plain.turned.reset();
  plain.inputs.resize(2);
  return plain;
}

// The product, and a rope in its place. Inputs 2 and 3 are the tables of cosines and sines.
class TurnedAfterwards final : public Kernel {
 public:
  TurnedAfterwards(GpuDevice& device, const Step& step, std::unique_ptr<Kernel> product)
      : device_(device),
        product_(std::move(product)),
        heads_(*step.turned),
        dtype_(step.outputs[0].dtype),
        rows_(step.domain[0]),
        columns_(step.domain[1]) {
    packet_ = static_cast<int>((heads_.rope.interleaved ? 8 : 16) / dtype_size(dtype_));
    while (packet_ > 1 && !fits(packet_)) packet_ /= 2;
    function_ = device.function(source(), "rotate");
  }

  std::size_t scratch_bytes() const override { return product_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    product_->run(arguments);
    const auto rows = static_cast<std::uint64_t>(rows_), half = static_cast<std::uint64_t>(heads_.half());
    const std::uint64_t heads = static_cast<std::uint64_t>(heads_.end - heads_.begin) / (2 * half);
    const auto time = static_cast<std::uint64_t>(heads_.time);
    device_.launch(function_,
                   {.x = device_.grid_for(rows * heads * half / static_cast<unsigned>(packet_), threads),
                    .threads = threads},
                   arguments.outputs[0], columns_, heads_.begin, heads, arguments.inputs[2],
                   arguments.inputs[3], rows, time, half);
  }

 private:
  // Neighbouring elements that are moved together, for so many pairs.
  int elements(int pairs) const { return heads_.rope.interleaved && pairs > 1 ? 2 * pairs : pairs; }
  // A result begins at a multiple of 64 bytes.
  bool fits(int pairs) const {
    return heads_.half() % pairs == 0 && columns_ % elements(pairs) == 0 &&
           heads_.begin % elements(pairs) == 0;
  }

  KernelSource source() const {
    const std::string_view stored = storage_type(dtype_), computed = compute_type(dtype_);
    return {"rope_in_place",
            fmt::format("#include \"rope.h\"\nusing Index = {0};\n"
                        "KERNEL void rotate({1}* out, i64 columns, i64 begin, u64 heads, const {2}* cosine, "
                        "const {2}* sine,\n    u64 rows, u64 time, u64 half) {{\n"
                        "  after_previous();\n"
                        "  const auto head_at = [&](Index i) {{\n"
                        "    return out + (i64)(i / (Index)heads) * columns + begin + "
                        "(i64)(i % (Index)heads) * 2 * (i64)half;\n  }};\n"
                        "  rope_rotate<{1}, {2}, {3}, {4}, Index>(head_at, 1, head_at,\n"
                        "      [&](Index i) {{ return i / (Index)heads % (Index)time; }},\n"
                        "      RopeTable<{2}>{{cosine, sine, half}}, rows * heads, half);\n}}\n",
                        index_type(rows_ * columns_), stored, computed, packet_, heads_.rope.interleaved),
            {},
            packet_ > 1 ? static_cast<std::size_t>(elements(packet_)) * dtype_size(dtype_) : 0};
  }

  GpuDevice& device_;
  std::unique_ptr<Kernel> product_;
  TurnedHeads heads_;
  DType dtype_;
  std::int64_t rows_, columns_;
  int packet_ = 1;  // pairs
  Function function_;
};

class TurnedProduct final : public Kernel {
 public:
  TurnedProduct(GpuDevice& device, const Step& step, MatmulVariant variant)
      : heads_(*step.turned),
        angles_(device, step.outputs[0].dtype, heads_.time, heads_.half()),
        turned_by_(step, 2, step.inputs.size() > 3, heads_.rope, heads_.half()) {
    const bool by_wgmma = wgmma_turns(device, step);
    if (variant != MatmulVariant::automatic && !by_wgmma)
      throw KernelError("[matmul] not a product that wgmma turns");
    const Step plain = without_turn(step);
    product_ = std::make_unique<TurnedAfterwards>(
        device, step,
        by_wgmma ? make_matmul(device, plain, MatmulVariant::mma_large) : choose_product(device, plain));
    if (by_wgmma) product_ = make_wgmma(device, step, variant, std::move(product_));
  }

  std::size_t scratch_bytes() const override { return angles_.bytes() + product_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const RopeAngles::Table table = angles_.compute(turned_by_.turns(arguments.inputs), arguments.scratch);
    void* const inputs[] = {arguments.inputs[0], arguments.inputs[1], table.cosine, table.sine};
    KernelArguments product = arguments;
    product.inputs = inputs;
    product.scratch = static_cast<char*>(arguments.scratch) + angles_.bytes();
    product_->run(product);
  }

 private:
  TurnedHeads heads_;
  RopeAngles angles_;
  RopeInputs turned_by_;
  std::unique_ptr<Kernel> product_;
};

}  // namespace

bool turned_fit(const Step& product) {
  return is_floating(product.outputs[0].dtype) && product.inputs[0].dtype == product.outputs[0].dtype &&
         product.inputs[1].dtype == product.outputs[0].dtype && !skinny_fits(product);
}

std::unique_ptr<Kernel> make_turned_product(GpuDevice& device, const Step& step, MatmulVariant variant) {
  return std::make_unique<TurnedProduct>(device, step, variant);
}

}  // namespace hearth::gpu
