// The ways to compute a product.
#include "gpu/product_choice.h"

#include "gpu/contraction_choice.h"
#include "gpu/gemm_tiles.h"
#include "gpu/matmul.h"
#include "hearth/config.h"

namespace hearth::gpu {
namespace {

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
    {"own mma_large", MatmulVariant::mma_large, true},
    {"own mma_small", MatmulVariant::mma_small, true},
    {"own fma_large", MatmulVariant::fma_large, false},
    {"own fma_small", MatmulVariant::fma_small, false},
    {"own skinny", MatmulVariant::skinny, true},
};

Contraction contraction_of(GpuDevice& device, const PlainProduct& product) {
  const bool unit = has_matrix_unit(device.target(), product.dtype);
  std::vector<OwnWay> own;
  for (const OwnVariant& variant : own_variants)
    own.push_back({variant.name, variant.likely || !unit, [&device, variant](const Step& step) {
                     return make_matmul(device, step, variant.variant);
                   }});
  const auto libraries = [&device, product] {
    return config().vendor_blas_enabled ? ways_of(product_libraries(device), product)
                                        : std::vector<LibraryWays>();
  };
  return {"matmul " + product.text(), product.multiplications(), product.depth, std::move(own), libraries};
}

}  // namespace

std::unique_ptr<Kernel> choose_product(GpuDevice& device, const Step& step) {
  const std::optional<PlainProduct> product = plain_product(step);
  return product ? choose_way(device, step, contraction_of(device, *product))
                 : make_matmul(device, step, MatmulVariant::automatic);
}

std::unique_ptr<Kernel> make_product(GpuDevice& device, const Step& step, const std::string& name) {
  const std::optional<PlainProduct> product = plain_product(step);
  return product ? make_way(device, step, contraction_of(device, *product), name) : nullptr;
}

}  // namespace hearth::gpu
