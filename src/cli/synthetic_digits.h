// Pictures of digits made on the spot, for machines without MNIST.
#pragma once

#include <cstdint>
#include <memory>

#include "hearth/data.h"

namespace hearth::cli {

// `count` images (1, 28, 28) u8 with labels: a 5x7 bitmap font, enlarged, slanted, shifted, of random
// brightness, with noise and stray strokes. The same for the same seed. An easier task than MNIST: there is
// only one hand.
std::shared_ptr<data::TensorDataset> synthetic_digits(std::int64_t count, std::uint64_t seed);

}  // namespace hearth::cli
