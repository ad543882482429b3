// What `tandem train --overfit` says of a model: Dice on its own patches.
#include "train/overfit.h"

#include <gtest/gtest.h>

#include "data/label_map.h"

namespace tandem {
namespace {

class OneSample final : public Dataset {
 public:
  OneSample(const Shape& labels, const std::vector<double>& values)
      : sample_{Tensor::zeros(Shape{1, 1, 1, 1, 4}, DType::kF32),
                Tensor::from_values(labels, values, DType::kI32),
                "sample",
                {}} {}
  std::int64_t size() const override { return 1; }
  Sample get(std::int64_t, const Draw&) const override { return sample_; }

 private:
  Sample sample_;
};

PatchModel constant(const Shape& shape, const std::vector<double>& logits) {
  return [=](const Tensor&) { return Tensor::from_values(shape, logits, DType::kF32); };
}

// 2 (1) / (2 + 1) of class 1; the last voxel is ignored, whatever is predicted there.
TEST(Overfit, IgnoredVoxelsDoNotCount) {
  const PatchModel model = constant(Shape{1, 2, 1, 1, 4}, {0, 1, 0, 0, 1, 0, 1, 1});
  const OneSample labelled(Shape{1, 1, 1, 1, 4}, {1, 0, 0, static_cast<double>(kIgnoredLabel)});
  EXPECT_DOUBLE_EQ(overfit_dice(model, labelled), 2.0 / 3);
}

// Region 0: 2 (1) / (2 + 1); region 1 is exact; an absent third region is not counted.
TEST(Overfit, RegionsAreChannelsOfTheirOwn) {
  const PatchModel model = constant(Shape{1, 3, 1, 1, 4}, {1, 1, -1, -1, -1, -1, 2, 2, -1, -1, -1, 3});
  const OneSample regions(Shape{1, 3, 1, 1, 4}, {1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(overfit_dice(model, regions), (2.0 / 3 + 1) / 2);
}

}  // namespace
}  // namespace tandem
