// Layout, views and copies of a tensor.
#include "core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

Values counting(std::int64_t n) {
  Values values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

Tensor counting_tensor(const Shape& shape, DType dtype = DType::kF32) {
  return Tensor::from_values(shape, counting(shape.numel()), dtype);
}

TEST(Tensor, IsStoredChannelsLast) {
  const Tensor x = counting_tensor({1, 2, 3});
  const Values expected{0, 3, 1, 4, 2, 5};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(x.data<float>()[i], expected[i]);
  EXPECT_EQ(x.rows(), 3);
  EXPECT_EQ(x.channels(), 2);
  EXPECT_EQ(x.to_values(), counting(6));
}

TEST(Tensor, MatricesAreRowMajor) {
  const Tensor x = counting_tensor({3, 2});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(x.data<float>()[i], i);
}

TEST(Tensor, WeightsAreStoredOutputTapsInput) {
  const Tensor w = counting_tensor({2, 3, 2, 2});  // [K, C, kh, kw], element ((k 3 + c) 4 + t)
  EXPECT_EQ(w.data<float>()[(1 * 4 + 2) * 3 + 1], (1 * 3 + 1) * 4 + 2);
}

TEST(Tensor, ValuesSurviveEveryDType) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kI16, DType::kU8})
    EXPECT_EQ(counting_tensor({2, 3, 2, 2}, dtype).to_values(), counting(24)) << name(dtype);
}

TEST(Tensor, FromValuesRoundsToNearestEven) {
  const Values x{2049, 65520, 1 + 0x1p-8, 257};
  EXPECT_EQ(Tensor::from_values({4}, x, DType::kF16).to_values(),
            (Values{2048, std::numeric_limits<double>::infinity(), 1 + 0x1p-8, 257}));
  EXPECT_EQ(Tensor::from_values({4}, x, DType::kBF16).to_values(), (Values{2048, 65536, 1, 256}));
}

// A double between two halves of a 16-bit step is rounded once, not first to FP32 and then again.
TEST(Tensor, FromValuesRoundsOnce) {
  const double above_tie = 1 + 0x1p-11 + 0x1p-40;  // FP32 would make it the tie, and even is 1
  EXPECT_EQ(Tensor::from_values({1}, Values{above_tie}, DType::kF16).to_values()[0], 1 + 0x1p-10);
}

TEST(Tensor, ChannelSlicesShareStorage) {
  const Tensor x = counting_tensor({2, 4, 3});
  const Tensor slice = x.slice_channels(1, 2);
  EXPECT_EQ(slice.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(slice.channel_pitch(), 4);
  EXPECT_FALSE(slice.is_packed());
  EXPECT_EQ(slice.storage(), x.storage());
  EXPECT_EQ(slice.to_values(), (Values{3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20}));
  slice.set_zero();
  Values expected = counting(24);
  for (const double value : {3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20})
    expected[static_cast<std::size_t>(value)] = 0;
  EXPECT_EQ(x.to_values(), expected);
}

TEST(Tensor, BatchSlicesArePacked) {
  const Tensor x = counting_tensor({3, 2, 2});
  const Tensor slice = x.slice_batch(1, 1);
  EXPECT_TRUE(slice.is_packed());
  EXPECT_EQ(slice.to_values(), (Values{4, 5, 6, 7}));
  EXPECT_EQ(x.slice_batch(3, 0).numel(), 0);
}

TEST(Tensor, CloneOfASliceIsPacked) {
  const Tensor x = counting_tensor({2, 4, 3});
  const Tensor copy = x.slice_channels(1, 2).clone();
  EXPECT_TRUE(copy.is_packed());
  EXPECT_NE(copy.storage(), x.storage());
  EXPECT_EQ(copy.to_values(), x.slice_channels(1, 2).to_values());
}

TEST(Tensor, WithShapeKeepsStoredOrder) {
  const Tensor w = counting_tensor({2, 3, 2, 1});
  const Tensor matrix = w.with_shape({2, 6});  // [K, taps*C]
  EXPECT_EQ(matrix.to_values(), (Values{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  EXPECT_THROW(w.with_shape({2, 5}), Error);
  EXPECT_THROW(counting_tensor({2, 4, 3}).slice_channels(0, 2).with_shape({12}), Error);
}

TEST(Tensor, MovesBetweenHostDevices) {
  const Tensor x = counting_tensor({1, 3, 2});
  const Tensor moved = x.slice_channels(0, 2).to_device(kReferenceDevice);
  EXPECT_EQ(moved.device(), kReferenceDevice);
  EXPECT_TRUE(moved.is_packed());
  EXPECT_EQ(moved.to_values(), (Values{0, 1, 2, 3}));
  EXPECT_EQ(x.to_device(kCpuDevice).storage(), x.storage());
}

TEST(Tensor, EmptyTensors) {
  const Tensor x = Tensor::zeros({0, 3, 4}, DType::kF16);
  EXPECT_TRUE(x.defined());
  EXPECT_EQ(x.rows(), 0);
  EXPECT_TRUE(x.to_values().empty());
  EXPECT_EQ(x.clone().shape(), x.shape());
  EXPECT_EQ(Tensor::zeros({2, 0}, DType::kF32).rows(), 0);
}

TEST(Tensor, ScalarsHaveOneRow) {
  const Tensor x = Tensor::from_values({}, Values{5}, DType::kF32);
  EXPECT_EQ(x.numel(), 1);
  EXPECT_EQ(x.rows(), 1);
  EXPECT_EQ(x.to_values(), (Values{5}));
}

TEST(Tensor, StorageIdsAreUniqueAndVersionsCount) {
  const Tensor a = counting_tensor({2}), b = counting_tensor({2});
  EXPECT_NE(a.storage()->id(), b.storage()->id());
  const std::uint64_t before = a.storage()->version();
  a.storage()->mark_changed();
  EXPECT_EQ(a.storage()->version(), before + 1);
}

TEST(Tensor, Errors) {
  EXPECT_THROW(counting_tensor({2, 3}).data<double>(), Error);
  EXPECT_THROW(Tensor().raw(), Error);
  EXPECT_THROW(counting_tensor({2, 3}).slice_channels(2, 2), Error);
  EXPECT_THROW(counting_tensor({2, 3}).slice_batch(1, 2), Error);
  const Tensor x = counting_tensor({2, 3});
  EXPECT_THROW(Tensor(x.storage(), 1, {2, 3}, DType::kF32, 3), Error) << "beyond the storage";
  EXPECT_THROW(Tensor(x.storage(), 0, {2, 3}, DType::kF32, 2), Error) << "rows overlap";
  try {
    Tensor::from_values({2, 3}, Values{1}, DType::kF32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[tensor] got 1 values, expected 6 for shape [2, 3]");
  }
}

TEST(Tensor, Text) {
  EXPECT_EQ(to_string(counting_tensor({2, 4, 3}, DType::kF16)), "F16 [2, 4, 3]");
  EXPECT_EQ(to_string(Tensor()), "undefined tensor");
  EXPECT_EQ(name(kCpuDevice), "cpu");
  EXPECT_EQ(name(Device{DeviceKind::kCuda, 1}), "cuda:1");
}

}  // namespace
}  // namespace tandem
