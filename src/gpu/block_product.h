// What products share whose weights are in blocks or in 16 bits: x (rows, depth) @ transposed(w (columns,
// depth)), with the expression that follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/head_store.h"
#include "gpu/kernel_arguments.h"
#include "gpu/matmul_kernel.h"

namespace hearth::gpu {

// Up to so many rows are bound by reading the weights.
inline constexpr std::int64_t few_rows = 8;

// The step as matmul has it, with the weights turned round.
Step as_matmul(const Step& step);

// The norm that a step's x goes through first, or null.
const NormAttributes* norm_of(const Step& step);
// Whether a product of blocks can have this one before it.
bool norm_fits(const Step& product, const Step& norm);

class BlockProduct : public MatmulKernel {
 protected:
  BlockProduct(GpuDevice& device, const Step& step);

  // The norm before the product: its weight and epsilon_.
  void add_norm(Arguments& values, const KernelArguments& arguments) const;
  const void* norm_weight(const KernelArguments& arguments) const { return arguments.inputs[inputs_ - 1]; }

  // Of rows that are rounded for the next product: the weight of its norm, or null.
  const void* rounded_weight(const KernelArguments& arguments) const {
    return rounds_ && rounds_->weighted ? arguments.inputs[inputs_] : nullptr;
  }

  // What follows the product: heads that are stored, or the expression's outputs and further inputs. They are
  // the kernel's last parameters; arguments live as long as an Ending.
  struct Ending {
    StoreHeads heads{};
    std::vector<Constant> constants;
  };
  std::string ending_parameters() const;
  void add_ending(Arguments& values, const KernelArguments& arguments, Ending& ending) const;

  std::string kernel_text(std::string_view body, std::string_view header) const;
  Blocks weights(const KernelArguments& arguments) const { return {arguments.inputs[1], blocks_}; }

  DType format_;
  FinishText finish_;
  std::optional<HeadStore> stored_;
  std::optional<RoundedRows> rounds_;  // its result
  std::optional<float> epsilon_;       // of the norm, where x goes through one
  bool steady_weights_;                // nothing before it in the plan writes them

 private:
  std::uint64_t blocks_;
  std::size_t inputs_;  // of the step, but for the rounded rows' weight
};

// ---- few rows (few_rows.cpp)

// Backend::fuses_halves, Backend::takes_norm (of a norm that fits) and Backend::stores_heads, for these
// products.
bool few_rows_take_halves(const GpuDevice& device, const Step& product);
bool few_rows_take_norm(const GpuDevice& device, const Step& product);
bool few_rows_store_heads(const GpuDevice& device, const Step& product, const Step& store,
                          const StoredHeads& heads);
// Backend::rounds_rows, for these products.
std::optional<std::uint32_t> few_rows_rounded_by(const GpuDevice& device, const Step& product,
                                                 const Step& writer);
// Whether there is a kernel for it: not for weights in 16 bits that make_matmul() is to multiply.
bool few_rows_fit(const GpuDevice& device, const Step& product);
std::unique_ptr<Kernel> make_few_rows(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
