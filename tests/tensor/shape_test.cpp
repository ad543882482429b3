// Sizes and element types.
#include "core/tensor/shape.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace tandem {
namespace {

using Spatial = std::array<std::int64_t, 3>;

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kShape);
    return error.text();
  }
  return "no error";
}

TEST(Shape, Sizes) {
  const Shape volume{2, 4, 8, 16, 32};
  EXPECT_EQ(volume.rank(), 5);
  EXPECT_EQ(volume.numel(), 2 * 4 * 8 * 16 * 32);
  EXPECT_EQ(volume.batch(), 2);
  EXPECT_EQ(volume.channels(), 4);
  EXPECT_EQ(volume.spatial_rank(), 3);
  EXPECT_EQ(volume.spatial(), (Spatial{8, 16, 32}));
  EXPECT_EQ(volume.spatial_numel(), 8 * 16 * 32);
  EXPECT_EQ(to_string(volume), "[2, 4, 8, 16, 32]");
}

TEST(Shape, LowRanks) {
  EXPECT_EQ((Shape{2, 3, 7}).spatial(), (Spatial{1, 1, 7}));
  EXPECT_EQ((Shape{2, 3, 7, 5}).spatial(), (Spatial{1, 7, 5}));
  EXPECT_EQ((Shape{2, 3}).spatial(), (Spatial{1, 1, 1}));
  EXPECT_EQ((Shape{5}).channels(), 5);
  EXPECT_EQ((Shape{5}).batch(), 1);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().channels(), 1);
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ((Shape{3, 0, 2}).numel(), 0);
}

TEST(Shape, Comparison) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_EQ((Shape{2, 3}).with(1, 7), (Shape{2, 7}));
}

TEST(Shape, Errors) {
  EXPECT_EQ(error_text([] { Shape{1, 2, 3, 4, 5, 6, 7}; }),
            "[shape] too many axes: got 7, expected at most 6");
  EXPECT_EQ(error_text([] { Shape{2, -1}; }), "[shape] negative size in [2, -1]");
  EXPECT_EQ(error_text([] {
              Shape{1 << 30, 1 << 30, 2};
            }),
            "[shape] [1073741824, 1073741824, 2] has more than 2^60 elements");
  EXPECT_EQ(error_text([] {
              Shape{0, std::int64_t{1} << 62, std::int64_t{1} << 62};
            }),
            "[shape] [0, 4611686018427387904, 4611686018427387904] has more than 2^60 elements");
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kF64), 8u);
  EXPECT_EQ(size_of(DType::kF32), 4u);
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
  EXPECT_EQ(size_of(DType::kI32), 4u);
  EXPECT_EQ(size_of(DType::kI16), 2u);
  EXPECT_EQ(size_of(DType::kU8), 1u);
  EXPECT_EQ(name(DType::kBF16), "BF16");
  EXPECT_TRUE(is_floating(DType::kF64));
  EXPECT_TRUE(is_16_bit_float(DType::kBF16));
  EXPECT_FALSE(is_floating(DType::kI32));
  EXPECT_FALSE(is_16_bit_float(DType::kI16));
  EXPECT_EQ(accumulation_dtype(DType::kF16), DType::kF32);
  EXPECT_EQ(accumulation_dtype(DType::kF64), DType::kF64);
}

}  // namespace
}  // namespace tandem
