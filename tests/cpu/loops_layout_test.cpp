// Pooling, reorder and depth_to_space at every instruction-set level, against the reference backend.
#include <array>
#include <limits>

#include "tests/cpu/loops_fixture.h"

namespace tandem::loops_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

class LoopsLayout : public LoopsTest {};

using Triple = std::array<std::int64_t, 3>;

struct PoolCase {
  std::int64_t batch, channels;
  Triple in, kernel, stride, padding;
};
const PoolCase kPoolCases[] = {
    {2, 16, {4, 6, 8}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}},
    {1, 1, {5, 7, 9}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}},
    {1, 5, {1, 9, 17}, {1, 3, 2}, {1, 1, 2}, {0, 1, 1}},
    {2, 33, {1, 1, 17}, {1, 1, 4}, {1, 1, 3}, {0, 0, 2}},
    {1, 300, {3, 4, 5}, {2, 3, 3}, {1, 2, 1}, {1, 0, 1}},
    {1, 17, {1, 1, 3}, {1, 1, 3}, {1, 1, 1}, {0, 0, 0}},
};

PoolArgs pool_args(const PoolCase& c, bool max, bool count_padding) {
  PoolArgs args{.max = max, .count_padding = count_padding};
  ConvGeometry& g = args.geometry;
  g.batch = c.batch;
  g.in_channels = g.out_channels = c.channels;
  g.in = c.in;
  g.kernel = c.kernel;
  g.stride = c.stride;
  g.padding = c.padding;
  for (std::size_t a = 0; a < 3; ++a) g.out[a] = (c.in[a] + 2 * c.padding[a] - c.kernel[a]) / c.stride[a] + 1;
  return args;
}

Shape volume_shape(std::int64_t batch, std::int64_t channels, const Triple& size) {
  return {batch, channels, size[0], size[1], size[2]};
}

void check_pool(const CpuLoops& loops, const PoolCase& c, const PoolArgs& args, DType dtype, Layout layout) {
  const auto reference = make_reference_backend();
  const Shape in = volume_shape(c.batch, c.channels, c.in),
              out = volume_shape(c.batch, c.channels, args.geometry.out);
  std::vector<double> values = random_values(in.numel(), 51);
  for (double& v : values) v = std::round(4 * v) / 4;  // many equal values
  const Tensor x = make(in, dtype, values, layout), y = make(out, dtype, layout), wanted = exact(out);
  const Tensor indices = args.max ? make(out, DType::kI32) : Tensor();
  const Tensor wanted_indices = args.max ? Tensor(out, DType::kI32, kReferenceDevice) : Tensor();
  loops.pool_forward(args, x, y, indices);
  reference->pool_forward(args, exact(x), wanted, wanted_indices);
  const std::string where = describe(x) + (args.max ? " max" : " average");
  expect_near(y, read(wanted), 1e-6, where);
  expect_margins(y, where);
  if (args.max) {
    EXPECT_EQ(read(indices), read(wanted_indices)) << where;
  }
  const Tensor dy = make(out, dtype, random_values(out.numel(), 52), layout);
  const Tensor dx = make(in, dtype, layout), wanted_dx = exact(in);
  loops.pool_backward(args, dy, indices, dx);
  reference->pool_backward(args, exact(dy), wanted_indices, wanted_dx);
  expect_near(dx, read(wanted_dx), 2e-6, "gradient " + where);
  expect_margins(dx, where);
}

TEST_P(LoopsLayout, Pooling) {
  for (const PoolCase& c : kPoolCases)
    for (const DType dtype : kDTypes)
      for (const Layout layout : {Layout::kPacked, Layout::kPitched}) {
        check_pool(loops(), c, pool_args(c, true, true), dtype, layout);
        check_pool(loops(), c, pool_args(c, false, true), dtype, layout);
        check_pool(loops(), c, pool_args(c, false, false), dtype, layout);
      }
}

TEST_P(LoopsLayout, MaxPoolTakesNanAndTheFirstOfEquals) {
  const PoolArgs args = pool_args({1, 1, {1, 1, 4}, {1, 1, 4}, {1, 1, 4}, {0, 0, 0}}, true, true);
  struct Row {
    std::vector<double> x;
    double y;
    std::int32_t index;
  };
  for (const Row& row : {Row{{1, 3, 3, 2}, 3, 1}, Row{{1, kNan, 5, kInfinity}, kNan, 1},
                         Row{{-kInfinity, -kInfinity, -kInfinity, -kInfinity}, -kInfinity, 0},
                         Row{{-0.0, 0.0, -1, 0}, 0, 0}}) {
    const Tensor x = make(Shape{1, 1, 4}, DType::kF32, row.x), y = make(Shape{1, 1, 1}, DType::kF32);
    const Tensor index = make(Shape{1, 1, 1}, DType::kI32);
    loops().pool_forward(args, x, y, index);
    expect_near(y, {row.y}, 0, "y");
    EXPECT_EQ(read(index)[0], row.index);
  }
}

// oneDNN sums BF16 average pooling in BF16; a sum of 512 ones would stall at 256.
TEST_P(LoopsLayout, AveragePoolSumsInFloat) {
  const PoolArgs args = pool_args({1, 3, {8, 8, 8}, {8, 8, 8}, {8, 8, 8}, {0, 0, 0}}, false, true);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor x = make(Shape{1, 3, 8, 8, 8}, dtype, std::vector<double>(1536, 1.0)),
                 y = make(Shape{1, 3, 1, 1, 1}, dtype);
    loops().pool_forward(args, x, y, Tensor());
    EXPECT_EQ(read(y), std::vector<double>(3, 1.0));
  }
}

TEST_P(LoopsLayout, ReorderThereAndBack) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kF64})
    for (const Shape& shape :
         {Shape{2, 3, 5, 7, 11}, Shape{1, 1, 9}, Shape{3, 33, 40}, Shape{4, 17}, Shape{1, 64, 70}}) {
      std::vector<double> logical(static_cast<std::size_t>(shape.numel()));
      for (std::size_t i = 0; i < logical.size(); ++i) logical[i] = static_cast<double>(i % 2000);
      const Tensor x = Tensor::from_values(shape, logical, dtype), flat = make(Shape{shape.numel()}, dtype);
      loops().reorder(x, flat, true);
      EXPECT_EQ(read(flat), logical) << describe(x);
      const Tensor back = make(shape, dtype);
      loops().reorder(flat, back, false);
      EXPECT_EQ(read(back), read(x)) << describe(x);
    }
}

TEST_P(LoopsLayout, DepthToSpace) {
  const auto reference = make_reference_backend();
  struct Case {
    std::int64_t batch, channels;
    Triple in, stride;
  };
  for (const Case& c : {Case{2, 16, {2, 3, 4}, {2, 2, 2}}, Case{1, 5, {1, 3, 7}, {1, 2, 3}},
                        Case{1, 33, {3, 1, 2}, {2, 1, 1}}, Case{1, 1, {1, 1, 5}, {1, 1, 2}}})
    for (const DType dtype : kDTypes)
      for (const Layout layout : {Layout::kPacked, Layout::kPitched}) {
        ConvGeometry g{.batch = c.batch,
                       .in_channels = c.channels,
                       .out_channels = c.channels,
                       .in = c.in,
                       .kernel = c.stride,
                       .stride = c.stride};
        for (std::size_t a = 0; a < 3; ++a) g.out[a] = c.in[a] * c.stride[a];
        const Shape flat{c.batch * c.in[0] * c.in[1] * c.in[2], g.taps() * c.channels};
        const Shape shape = volume_shape(c.batch, c.channels, g.out);
        const Tensor blocks = make(flat, dtype, random_values(flat.numel(), 53));
        for (const bool with_bias : {false, true}) {
          const Tensor bias =
              with_bias ? make(Shape{c.channels}, DType::kF32, random_values(c.channels, 54)) : Tensor();
          const Tensor volume = make(shape, dtype, layout), wanted = exact(shape);
          loops().depth_to_space(g, blocks, bias, volume, false);
          reference->depth_to_space(g, exact(blocks), with_bias ? exact(bias) : Tensor(), wanted, false);
          expect_near(volume, read(wanted), 1e-7, describe(volume));
          expect_margins(volume, describe(volume));
          const Tensor back = make(flat, dtype), wanted_back = exact(flat);
          loops().depth_to_space(g, back, Tensor(), volume, true);
          reference->depth_to_space(g, wanted_back, Tensor(), exact(volume), true);
          expect_near(back, read(wanted_back), 0, describe(volume) + " back");
        }
      }
}

TD_FOR_EACH_LEVEL(LoopsLayout);

}  // namespace
}  // namespace tandem::loops_test
