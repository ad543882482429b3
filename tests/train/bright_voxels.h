// A learnable task without files: random voxels, of which the bright ones are class 1.
#pragma once

#include "core/base/rng.h"
#include "data/dataset.h"

namespace tandem::testing {

class BrightVoxels final : public Dataset {
 public:
  explicit BrightVoxels(std::int64_t size = 16, std::int64_t edge = 8) : size_(size), edge_(edge) {}
  std::int64_t size() const override { return size_; }
  Sample get(std::int64_t, const Draw& draw) const override {
    const Shape shape{1, 1, edge_, edge_, edge_};
    Sample sample{Tensor(shape, DType::kF32), Tensor(shape, DType::kI32), "voxels", {}, {}};
    RandomStream stream(draw.seed, RandomPurpose::kSynthetic, draw.epoch, draw.sample);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const double value = stream.normal();
      sample.image.data<float>()[i] = static_cast<float>(value);
      sample.label.data<std::int32_t>()[i] = value > 0.5 ? 1 : 0;
    }
    return sample;
  }

 private:
  const std::int64_t size_, edge_;
};

}  // namespace tandem::testing
