// Products of many rows with weights in blocks: x becomes f16 in scratch memory first, with a scale per row,
// and through a norm on the way where the step has one.
#pragma once

#include "gpu/block_product.h"

namespace hearth::gpu {

class HalvedProduct : public BlockProduct {
 protected:
  using BlockProduct::BlockProduct;

  // x in scratch memory.
  struct Halved {
    void *numbers, *scales;
  };
  // x is to have so many rows of so many elements there.
  void halves(std::int64_t rows, std::int64_t depth);
  Halved halve(const KernelArguments& arguments) const;
  std::size_t halved_bytes() const;  // of scratch memory

  // The kernel `halve_activations`, which puts element k of a row where `place`, a type, says.
  std::string halve_text(std::string_view place) const;
  // What gets results of x as it is there.
  std::string scaled_finish() const;

  // Tiles of the result; returns how many.
  std::uint64_t divide(int rows, int columns);
  std::uint64_t tiles() const { return static_cast<std::uint64_t>(shape_.row_tiles) * shape_.column_tiles; }

  Function halve_;

 private:
  std::size_t scales_at() const;
  std::int64_t rows_ = 0;  // of x in scratch memory
};

// By the matrix unit of sm_90, with weights from registers (quantised_groups.cpp). Such a product takes
// halves (Backend::fuses_halves).
bool group_rows_fit(const GpuDevice& device, const Step& product);
// Backend::stores_heads, for these.
bool group_rows_store_heads(const GpuDevice& device, const Step& product, const Step& store,
                            const StoredHeads& heads);
std::unique_ptr<Kernel> make_group_rows(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
