// All that differs between two checkpoints, by name: what `tandem ckpt diff` lists.
#include <gtest/gtest.h>

#include "tests/train/checkpoint_content.h"
#include "train/checkpoint.h"

namespace tandem {
namespace {

using testing::counting;
using testing::sample_content;

TEST(AllDifferences, TensorsThenStatesWithTheLargestDistance) {
  const CheckpointContent a = sample_content(5);
  CheckpointContent b = sample_content(5);
  EXPECT_TRUE(all_differences(a, b).empty());
  b.state.good_steps += 1;
  b.tensors.pop_back();
  b.tensors[0].tensor = counting({2, 3, 2, 1, 2}, DType::kF32, 0.5);
  b.tensors[0].tensor.data<float>()[1] = 99;  // logical [0, 1, 0, 0, 0]
  const std::vector<CheckpointDifference> all = all_differences(a, b);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "model/enc0.conv1.weight");
  EXPECT_EQ(all[0].text, "1 of 24 values differ by up to 94.5, first at [0, 1, 0, 0, 0]: 4.5, 99");
  EXPECT_EQ(all[1].text, "only in the first");
  EXPECT_EQ(all[2].name, "state/scaler/good_steps");
}

}  // namespace
}  // namespace tandem
