// Products by warpgroups of sm_90 with weights in blocks that become the unit's operands in registers: what
// the kernels of kernels/quantised_groups.h and kernels/quantised_boxes.h have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/halved_product.h"

namespace hearth::gpu {

class GroupedProduct : public HalvedProduct {
 public:
  std::size_t scratch_bytes() const override { return halved_bytes(); }

 protected:
  using HalvedProduct::HalvedProduct;

  static constexpr std::int64_t chunk = 128;  // of K; as kernels/quantised_strips.h has it

  // What a block has: rows of x and of the weights, and so much of K; blocks of a cluster have parts of it.
  struct Division {
    int rows = 0, places = 0;
    std::int64_t depth = 0, splits = 1;
  };
  // How the kernel is written. `weights`: the type of its first parameter. `tile`: the type Tile. `multiply`:
  // the function that does it.
  struct Text {
    std::string_view header;
    std::string weights, tile, multiply;
    std::string_view place;  // of elements of x, a template over formats
  };

  // Columns of the result.
  int tile_columns(int places) const { return places / (product_.halves ? 2 : 1); }
  // How many clusters of so many blocks run at once, at least.
  std::int64_t clusters_at_once(std::int64_t splits) const;
  std::string pairing() const;

  // The last thing a constructor does.
  void compile(const Division& division, const Text& text, unsigned threads, unsigned shared_bytes);
  // `values`: the kernel's first argument.
  void launch(Arguments& values, const KernelArguments& arguments) const;

 private:
  std::string kernels(const Division& division, const Text& text, unsigned threads) const;

  int rows_ = 0;
  LaunchShape shape_of_launch_;
  Function multiply_;
};

// ---- up to 64 rows, with weights that the copy engine brings (quantised_boxes.cpp)

bool box_rows_fit(const GpuDevice& device, const Step& product);
std::unique_ptr<Kernel> make_box_rows(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
