// Transforms of samples, on whole batches in host memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/host_array.h"
#include "hearth/data.h"

namespace hearth::data {
namespace {

struct ImageSizes {
  std::int64_t count, channels, height, width;
};

ImageSizes image_sizes(const Tensor& batch, const char* transform) {
  const Shape& shape = batch.shape();
  if (shape.size() != 4)
    throw ShapeError(fmt::format("[{}] wants images (channels, height, width), got samples of shape {}",
                                 transform, to_string(sample_shape(shape))));
  return {shape[0], shape[1], shape[2], shape[3]};
}

class ToFloat : public Transform {
 public:
  explicit ToFloat(double scale) : scale_(static_cast<float>(scale)) {}
  Tensor apply(const Tensor& batch, std::span<SampleRandom>) const override {
    HostArray array(batch.shape(), DType::f32);
    float* out = array.as<float>();
    with_element_type(batch.dtype(), [&]<typename T>(T) {
      const std::span<const T> in = batch.data<T>();
      for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i]) * scale_;
    });
    return std::move(array).to_tensor();
  }

 private:
  float scale_;
};

class Normalize : public Transform {
 public:
  Normalize(std::vector<double> mean, std::vector<double> deviation)
      : mean_(std::move(mean)), deviation_(std::move(deviation)) {
    if (mean_.empty() || mean_.size() != deviation_.size())
      throw ValueError(
          fmt::format("[normalize] {} means and {} deviations", mean_.size(), deviation_.size()));
    for (const double deviation_of_channel : deviation_)
      if (deviation_of_channel == 0) throw ValueError("[normalize] a deviation is zero");
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom>) const override {
    const Shape& shape = batch.shape();
    const std::int64_t channels = shape.size() > 1 ? shape[1] : 1;
    if (mean_.size() != 1 && static_cast<std::int64_t>(mean_.size()) != channels)
      throw ShapeError(fmt::format("[normalize] {} means for samples of shape {}", mean_.size(),
                                   to_string(sample_shape(shape))));
    HostArray array(shape, DType::f32);
    const std::int64_t planes = shape[0] * channels;
    const std::int64_t plane = planes == 0 ? 0 : batch.numel() / planes;
    float* out = array.as<float>();
    with_element_type(batch.dtype(), [&]<typename T>(T) {
      const T* in = batch.data<T>().data();
      for (std::int64_t p = 0; p < planes; ++p) {
        const auto channel = mean_.size() == 1 ? 0 : static_cast<std::size_t>(p % channels);
        const auto mean = static_cast<float>(mean_[channel]);
        const auto deviation = static_cast<float>(deviation_[channel]);
        for (std::int64_t i = p * plane; i < (p + 1) * plane; ++i)
          out[i] = (static_cast<float>(in[i]) - mean) / deviation;
      }
    });
    return std::move(array).to_tensor();
  }

 private:
  std::vector<double> mean_, deviation_;
};

// Windows of (height, width): sample i's begins at (top, left) of its image, which may lie outside; zeros are
// there.
template <typename Place>
Tensor crop(const Tensor& batch, std::int64_t height, std::int64_t width, const ImageSizes& from,
            const Place& place) {
  const std::size_t element = dtype_size(batch.dtype());
  HostArray array(Shape{from.count, from.channels, height, width}, batch.dtype());
  std::memset(array.data(), 0, array.nbytes());
  const std::byte* in = host_bytes(batch).data();
  for (std::int64_t n = 0; n < from.count; ++n) {
    const auto [top, left] = place(n);
    const std::int64_t first_column = std::max<std::int64_t>(0, -left);
    const std::int64_t last_column = std::min(width, from.width - left);
    if (last_column <= first_column) continue;
    for (std::int64_t c = 0; c < from.channels; ++c) {
      for (std::int64_t y = 0; y < height; ++y) {
        const std::int64_t row = top + y;
        if (row < 0 || row >= from.height) continue;
        const std::int64_t source =
            ((n * from.channels + c) * from.height + row) * from.width + left + first_column;
        const std::int64_t target = ((n * from.channels + c) * height + y) * width + first_column;
        std::memcpy(array.data() + static_cast<std::size_t>(target) * element,
                    in + static_cast<std::size_t>(source) * element,
                    static_cast<std::size_t>(last_column - first_column) * element);
      }
    }
  }
  return std::move(array).to_tensor();
}

class RandomCrop : public Transform {
 public:
  RandomCrop(std::int64_t height, std::int64_t width, std::int64_t padding)
      : height_(height), width_(width), padding_(padding) {
    if (height < 1 || width < 1 || padding < 0)
      throw ValueError(fmt::format("[random_crop] window ({}, {}) with padding {}", height, width, padding));
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const override {
    const ImageSizes from = image_sizes(batch, "random_crop");
    const std::int64_t rows = from.height + 2 * padding_ - height_ + 1;
    const std::int64_t columns = from.width + 2 * padding_ - width_ + 1;
    if (rows < 1 || columns < 1)
      throw ShapeError(fmt::format("[random_crop] window ({}, {}) of images ({}, {}) with padding {}",
                                   height_, width_, from.height, from.width, padding_));
    return crop(batch, height_, width_, from, [&](std::int64_t n) {
      SampleRandom& random = randoms[static_cast<std::size_t>(n)];
      const std::int64_t top = random.below(rows) - padding_;
      const std::int64_t left = random.below(columns) - padding_;
      return std::pair(top, left);
    });
  }

 private:
  std::int64_t height_, width_, padding_;
};

class CenterCrop : public Transform {
 public:
  CenterCrop(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    if (height < 1 || width < 1)
      throw ValueError(fmt::format("[center_crop] window ({}, {})", height, width));
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom>) const override {
    const ImageSizes from = image_sizes(batch, "center_crop");
    if (height_ > from.height || width_ > from.width)
      throw ShapeError(fmt::format("[center_crop] window ({}, {}) of images ({}, {})", height_, width_,
                                   from.height, from.width));
    return crop(batch, height_, width_, from, [&](std::int64_t) {
      return std::pair((from.height - height_) / 2, (from.width - width_) / 2);
    });
  }

 private:
  std::int64_t height_, width_;
};

class RandomFlip : public Transform {
 public:
  RandomFlip(double p, bool horizontal) : p_(p), horizontal_(horizontal) {
    if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("[random_flip] probability {}", p));
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const override {
    const ImageSizes sizes = image_sizes(batch, "random_flip");
    HostArray array(batch.shape(), batch.dtype());
    const auto bytes = host_bytes(batch);
    std::memcpy(array.data(), bytes.data(), bytes.size());
    with_element_type(batch.dtype(), [&]<typename T>(T) {
      for (std::int64_t n = 0; n < sizes.count; ++n) {
        if (!randoms[static_cast<std::size_t>(n)].chance(p_)) continue;
        for (std::int64_t c = 0; c < sizes.channels; ++c)
          flip_plane(array.as<T>() + (n * sizes.channels + c) * sizes.height * sizes.width, sizes);
      }
    });
    return std::move(array).to_tensor();
  }

 private:
  template <typename T>
  void flip_plane(T* plane, const ImageSizes& sizes) const {
    if (horizontal_) {
      for (std::int64_t y = 0; y < sizes.height; ++y)
        std::reverse(plane + y * sizes.width, plane + (y + 1) * sizes.width);
    } else {
      for (std::int64_t y = 0; y < sizes.height / 2; ++y)
        std::swap_ranges(plane + y * sizes.width, plane + (y + 1) * sizes.width,
                         plane + (sizes.height - 1 - y) * sizes.width);
    }
  }
  double p_;
  bool horizontal_;
};

class RandomErase : public Transform {
 public:
  RandomErase(std::int64_t side, double p, double value) : side_(side), p_(p), value_(value) {
    if (side < 1 || !(p >= 0 && p <= 1))
      throw ValueError(fmt::format("[random_erase] side {} with probability {}", side, p));
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const override {
    const ImageSizes sizes = image_sizes(batch, "random_erase");
    HostArray array(batch.shape(), batch.dtype());
    const auto bytes = host_bytes(batch);
    std::memcpy(array.data(), bytes.data(), bytes.size());
    with_element_type(batch.dtype(), [&]<typename T>(T) {
      for (std::int64_t n = 0; n < sizes.count; ++n) {
        SampleRandom& random = randoms[static_cast<std::size_t>(n)];
        if (!random.chance(p_)) continue;
        const std::int64_t top = random.below(sizes.height) - side_ / 2;
        const std::int64_t left = random.below(sizes.width) - side_ / 2;
        const std::int64_t first = std::max<std::int64_t>(0, left);
        const std::int64_t last = std::min(sizes.width, left + side_);
        for (std::int64_t c = 0; c < sizes.channels; ++c)
          for (std::int64_t y = std::max<std::int64_t>(0, top); y < std::min(sizes.height, top + side_);
               ++y) {
            T* row = array.as<T>() + ((n * sizes.channels + c) * sizes.height + y) * sizes.width;
            std::fill(row + first, row + last, static_cast<T>(static_cast<float>(value_)));
          }
      }
    });
    return std::move(array).to_tensor();
  }

 private:
  std::int64_t side_;
  double p_, value_;
};

class GaussianNoise : public Transform {
 public:
  explicit GaussianNoise(double deviation) : deviation_(deviation) {
    if (!(deviation >= 0)) throw ValueError(fmt::format("[gaussian_noise] deviation {}", deviation));
  }
  Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const override {
    HostArray array(batch.shape(), DType::f32);
    const std::span<const float> in = batch.data<float>();
    const std::size_t row = randoms.empty() ? 0 : in.size() / randoms.size();
    for (std::size_t i = 0; i < in.size(); ++i)
      array.as<float>()[i] = in[i] + static_cast<float>(deviation_ * randoms[i / row].normal());
    return std::move(array).to_tensor();
  }

 private:
  double deviation_;
};

class SampleFunction : public Transform {
 public:
  using Function = std::function<Tensor(const Tensor&, SampleRandom&)>;
  explicit SampleFunction(Function function) : function_(std::move(function)) {}
  Tensor apply(const Tensor& batch, std::span<SampleRandom> randoms) const override {
    std::vector<Sample> samples;
    for (std::size_t n = 0; n < randoms.size(); ++n)
      samples.push_back({function_(batch[static_cast<std::int64_t>(n)], randoms[n])});
    return stack_samples(samples)[0];
  }

 private:
  Function function_;
};

}  // namespace

TransformPtr to_float(double scale) { return std::make_shared<ToFloat>(scale); }
TransformPtr normalize(std::vector<double> mean, std::vector<double> deviation) {
  return std::make_shared<Normalize>(std::move(mean), std::move(deviation));
}
TransformPtr random_crop(std::int64_t height, std::int64_t width, std::int64_t padding) {
  return std::make_shared<RandomCrop>(height, width, padding);
}
TransformPtr center_crop(std::int64_t height, std::int64_t width) {
  return std::make_shared<CenterCrop>(height, width);
}
TransformPtr random_horizontal_flip(double p) { return std::make_shared<RandomFlip>(p, true); }
TransformPtr random_vertical_flip(double p) { return std::make_shared<RandomFlip>(p, false); }
TransformPtr random_erase(std::int64_t side, double p, double value) {
  return std::make_shared<RandomErase>(side, p, value);
}
TransformPtr gaussian_noise(double deviation) { return std::make_shared<GaussianNoise>(deviation); }
TransformPtr transform(std::function<Tensor(const Tensor&, SampleRandom&)> function) {
  return std::make_shared<SampleFunction>(std::move(function));
}

}  // namespace hearth::data
