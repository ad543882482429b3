// Layout, binding, initialisation and rounding of the flat parameter buffers.
#include "core/params/param_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr Initializer kNormal{Initializer::Kind::kKaimingNormal, 0.01};

// A convolution of 3 to 5 channels, its norm, and a linear layer.
struct Net {
  Parameter conv{Shape{5, 3, 3, 3}, ParamRegion::kCast, kNormal};
  Parameter conv_bias{Shape{5}, ParamRegion::kKept, {Initializer::Kind::kUniform, 0.25}};
  Parameter scale{Shape{5}, ParamRegion::kKept, {Initializer::Kind::kOnes}};
  Parameter fc{Shape{7, 20}, ParamRegion::kCast, {Initializer::Kind::kKaimingUniform, 0}};

  std::vector<NamedParameter> all() {
    return {{"enc0.conv1.weight", &conv},
            {"enc0.conv1.bias", &conv_bias},
            {"enc0.norm1.weight", &scale},
            {"head.weight", &fc}};
  }
};

const Context kCpu{.device = kCpuDevice, .seed = 7};

std::string error_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

TEST(ParamStore, KeepsOrderAndPutsWeightsAndVectorsApart) {
  Net net;
  const ParamStore store(net.all(), kCpu, {DType::kF16});
  ASSERT_EQ(store.segments().size(), 4u);
  EXPECT_EQ(store.segments()[0].name, "enc0.conv1.weight");
  EXPECT_EQ(store.segments()[3].name, "head.weight");
  EXPECT_EQ(store.find("enc0.conv1.weight")->region, ParamRegion::kCast);
  EXPECT_EQ(store.find("head.weight")->region, ParamRegion::kCast);
  EXPECT_EQ(store.find("enc0.conv1.bias")->region, ParamRegion::kKept);
  EXPECT_EQ(store.find("enc0.norm1.weight")->region, ParamRegion::kKept);
  EXPECT_EQ(store.find("enc0"), nullptr);
  EXPECT_EQ(store.parameter_count(), 5 * 27 + 5 + 5 + 140);
}

// Channels are padded to the multiple, segments start at 64 bytes in every buffer, and what is between is
// zero.
TEST(ParamStore, PadsChannelsToTheMultipleWithZeros) {
  Net net;
  const ParamStore store(net.all(), kCpu, {DType::kF16}, 8);
  EXPECT_EQ(store.find("enc0.conv1.weight")->channel_pitch, 8);
  EXPECT_EQ(store.find("enc0.conv1.weight")->size, 5 * 9 * 8);
  EXPECT_EQ(store.find("head.weight")->channel_pitch, 24);
  EXPECT_EQ(store.find("enc0.conv1.bias")->channel_pitch, 8);
  for (const ParamSegment& segment : store.segments()) {
    const FlatRegion& flat = store.region(segment.region);
    for (const Tensor& buffer : {flat.master, flat.gradient, flat.copy})
      EXPECT_EQ(segment.offset * static_cast<std::int64_t>(size_of(buffer.dtype())) % 64, 0) << segment.name;
    EXPECT_LE(segment.offset + segment.size, flat.size);
  }
  const FlatRegion& cast = store.region(ParamRegion::kCast);
  std::vector<bool> used(static_cast<std::size_t>(cast.size));
  for (const ParamSegment& segment : store.segments())
    if (segment.region == ParamRegion::kCast)
      for (std::int64_t row = 0; row < segment.size / segment.channel_pitch; ++row)
        for (std::int64_t c = 0; c < segment.shape.channels(); ++c)
          used[static_cast<std::size_t>(segment.offset + row * segment.channel_pitch + c)] = true;
  const std::vector<double> master = cast.master.to_values(), copy = cast.copy.to_values();
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    EXPECT_EQ(master[i], 0) << i;
    EXPECT_EQ(copy[i], 0) << i;
  }
  EXPECT_EQ(std::count(used.begin(), used.end(), true), 5 * 27 + 140);
}

TEST(ParamStore, TheMultipleOfTheCpuIsOne) {
  Net net;
  const ParamStore store(net.all(), kCpu, {DType::kF32});
  EXPECT_EQ(store.find("enc0.conv1.weight")->channel_pitch, 3);
}

TEST(ParamStore, CopiesAreTheMasterInFp32AndInTheReference) {
  Net a, b, c;
  const ParamStore fp32(a.all(), kCpu, {DType::kF32});
  EXPECT_FALSE(fp32.region(ParamRegion::kCast).has_copy());
  EXPECT_EQ(a.conv.value().raw(), a.conv.master().raw());
  const ParamStore reference(b.all(), {.device = kReferenceDevice, .seed = 7}, {DType::kF16});
  EXPECT_EQ(reference.region(ParamRegion::kCast).master.dtype(), DType::kF64);
  EXPECT_EQ(reference.region(ParamRegion::kKept).gradient.dtype(), DType::kF64);
  EXPECT_FALSE(reference.region(ParamRegion::kCast).has_copy());
  const ParamStore fp16(c.all(), kCpu, {DType::kF16});
  EXPECT_TRUE(fp16.region(ParamRegion::kCast).has_copy());
  EXPECT_FALSE(fp16.region(ParamRegion::kKept).has_copy());
  EXPECT_EQ(c.conv.value().dtype(), DType::kF16);
  EXPECT_EQ(c.conv.master().dtype(), DType::kF32);
  EXPECT_EQ(c.conv.gradient().dtype(), DType::kF32);
  EXPECT_EQ(c.scale.value().dtype(), DType::kF32);
}

TEST(ParamStore, CopiesAreTheMasterRoundedToNearestEven) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Net net;
    const ParamStore store(net.all(), kCpu, {dtype});
    const std::vector<double> master = net.conv.master().to_values(), copy = net.conv.value().to_values();
    for (std::size_t i = 0; i < master.size(); ++i) {
      const auto value = static_cast<float>(master[i]);
      EXPECT_EQ(copy[i], dtype == DType::kF16 ? to_float(to_half(value)) : to_float(to_bfloat16(value)));
    }
  }
}

TEST(ParamStore, WeightsOfFp32LayersLieInTheKeptRegion) {
  Net net;
  const ParamStore store(net.all(), kCpu, {DType::kF16, {"head"}});
  EXPECT_EQ(store.find("head.weight")->region, ParamRegion::kKept);
  EXPECT_EQ(net.fc.value().dtype(), DType::kF32);
  EXPECT_EQ(net.conv.value().dtype(), DType::kF16);
}

TEST(ParamStore, APatternThatMatchesNothingIsAnError) {
  Net net;
  EXPECT_EQ(error_of(
                [&] {
                  ParamStore(net.all(), kCpu, {DType::kF16, {"hed"}});
                },
                ErrorKind::kConfig),
            "[precision] precision.fp32_layers matches nothing: got 'hed', expected the name of a layer or "
            "parameter. Did you mean 'head'?");
  EXPECT_THAT(
      error_of(
          [&] {
            ParamStore(net.all(), kCpu, {DType::kF16, {}, {"enc0.norm1"}});
          },
          ErrorKind::kConfig),
      HasSubstr("precision.low_layers matches nothing: got 'enc0.norm1', expected the name of a conv or "
                "linear layer or its weight (others are always FP32)"));
}

TEST(ParamStore, BindsViewsAndGradientsAreAddedToTheStore) {
  Net net;
  EXPECT_FALSE(net.scale.is_bound());
  ParamStore store(net.all(), {.device = kReferenceDevice}, {});
  Tape tape({.device = kReferenceDevice});
  EXPECT_TRUE(net.scale.is_bound());
  for (int i = 0; i < 2; ++i)
    net.scale.on(tape).accumulate(
        Tensor::from_values(Shape{5}, std::vector<double>{1, 2, 3, 4, 5}, DType::kF64, kReferenceDevice));
  const ParamSegment& segment = *store.find("enc0.norm1.weight");
  const Tensor gradient = ParamStore::view(segment, store.region(ParamRegion::kKept).gradient);
  EXPECT_EQ(gradient.to_values(), (std::vector<double>{2, 4, 6, 8, 10}));
  store.zero_gradients();
  EXPECT_EQ(gradient.to_values(), std::vector<double>(5));
}

TEST(ParamStore, AnUnboundParameterIsABug) {
  Net net;
  Tape tape({});
  EXPECT_THAT(error_of([&] { net.conv.on(tape); }, ErrorKind::kInternal),
              HasSubstr("before a ParamStore bound it"));
}

TEST(ParamStore, ViewsAreLogical) {
  Net net;
  ParamStore store(net.all(), kCpu, {}, 8);
  const std::vector<double> expected = initial_values(net.conv, kCpu.seed, 0);
  const std::vector<double> values = net.conv.master().to_values();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(expected[i]));
}

// He et al. 2015: variance 2 / ((1 + a^2) fan_in), or a uniform bound of sqrt(3) times its root.
TEST(InitialValues, HaveTheMomentsOfTheirFormula) {
  const Parameter normal(Shape{64, 32, 3, 3, 3}, ParamRegion::kCast, kNormal);
  const Parameter uniform(Shape{500, 800}, ParamRegion::kCast,
                          {Initializer::Kind::kKaimingUniform, std::sqrt(5.0)});
  const Parameter bias(Shape{4000}, ParamRegion::kKept, {Initializer::Kind::kUniform, 0.1});
  const auto moments = [](const std::vector<double>& v) {
    double sum = 0, squares = 0, largest = 0;
    for (const double x : v) {
      sum += x;
      squares += x * x;
      largest = std::max(largest, std::abs(x));
    }
    const auto n = static_cast<double>(v.size());
    return std::array<double, 3>{sum / n, squares / n, largest};
  };
  const auto n = moments(initial_values(normal, 3, 0));
  const double variance = 2 / (1 + 1e-4) / (32 * 27);
  EXPECT_NEAR(n[0], 0, 4 * std::sqrt(variance / 55296));
  EXPECT_NEAR(n[1] / variance, 1, 4 * std::sqrt(2.0 / 55296));
  EXPECT_GT(n[2], 3.5 * std::sqrt(variance));
  const auto u = moments(initial_values(uniform, 3, 1));
  const double bound = 1 / std::sqrt(800.0);  // a = sqrt 5
  EXPECT_LE(u[2], bound);
  EXPECT_GT(u[2], 0.999 * bound);
  EXPECT_NEAR(u[1] / (bound * bound / 3), 1, 0.01);
  const auto b = moments(initial_values(bias, 3, 2));
  EXPECT_LE(b[2], 0.1);
  EXPECT_GT(b[2], 0.099);
}

TEST(InitialValues, DependOnSeedAndPositionOnly) {
  const Parameter parameter(Shape{17, 5, 3}, ParamRegion::kCast, kNormal);
  const std::vector<double> first = initial_values(parameter, 1, 2);
  EXPECT_NE(first, initial_values(parameter, 2, 2));
  EXPECT_NE(first, initial_values(parameter, 1, 3));
  const int threads = compute_threads();
  for (const int team : {1, 3, 8}) {
    set_compute_threads(team);
    EXPECT_EQ(first, initial_values(parameter, 1, 2)) << team << " threads";
  }
  set_compute_threads(threads);
}

TEST(InitialValues, AreTheSameInEveryPrecisionAndPadding) {
  Net a, b, c;
  const ParamStore fp32(a.all(), kCpu, {}), fp16(b.all(), kCpu, {DType::kF16, {"head"}}),
      padded(c.all(), kCpu, {}, 8);
  EXPECT_EQ(a.fc.master().to_values(), b.fc.master().to_values());
  EXPECT_EQ(a.conv.master().to_values(), b.conv.master().to_values());
  EXPECT_EQ(a.conv.master().to_values(), c.conv.master().to_values());
  EXPECT_NE(a.conv.master().to_values()[0], 0);
}

TEST(ParamStore, EveryChangeMovesTheVersionsOfItsStorages) {
  Net net;
  ParamStore store(net.all(), kCpu, {DType::kBF16});
  const auto versions = [&] {
    return std::array{store.region(ParamRegion::kCast).copy.storage()->version(),
                      store.region(ParamRegion::kCast).master.storage()->version(),
                      store.region(ParamRegion::kKept).master.storage()->version()};
  };
  const auto before = versions();
  store.mark_changed();
  store.refresh_copies();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(versions()[i], before[i] + 2);
}

TEST(ParamStore, MemoryIsCountedAsWeightsAndGradients) {
  const auto used = [](MemoryCategory category) {
    return allocator_of(kCpuDevice)->statistics().current[static_cast<std::size_t>(category)];
  };
  const std::int64_t weights = used(MemoryCategory::kWeights), gradients = used(MemoryCategory::kGradients);
  Net net;
  const ParamStore store(net.all(), kCpu, {DType::kF16});
  const std::int64_t cast = store.region(ParamRegion::kCast).size,
                     kept = store.region(ParamRegion::kKept).size;
  EXPECT_EQ(used(MemoryCategory::kWeights) - weights, cast * (4 + 2) + kept * 4);
  EXPECT_EQ(used(MemoryCategory::kGradients) - gradients, (cast + kept) * 4);
}

// Event W of amp.md 2.3: 65519.99 still rounds to 65504, 65520 to infinity.
TEST(ParamStore, AFiniteMasterThatRoundsToInfinityIsNamed) {
  Net net;
  ParamStore store(net.all(), kCpu, {DType::kF16});
  float* const weights = net.fc.master().data<float>();
  weights[5] = 65519.99f;
  store.refresh_copies();
  EXPECT_EQ(net.fc.value().to_values()[5], 65504);
  EXPECT_EQ(store.first_nonfinite(), "");
  weights[5] = -65520.0f;
  EXPECT_EQ(
      error_of([&] { store.refresh_copies(); }, ErrorKind::kNumeric),
      "[weights] a weight of 'head.weight' does not fit F16: got |w| = 65520, expected less than 65520. Keep "
      "this layer in FP32 with precision.fp32_layers: [\"head\"], or lower optimizer.lr, or set "
      "precision.compute: bf16.");
  EXPECT_EQ(store.first_nonfinite(), "head.weight");
}

TEST(ParamStore, FirstNonfiniteNamesTheFirstBadParameter) {
  Net net;
  const ParamStore store(net.all(), kCpu, {});
  net.scale.master().data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  net.fc.master().data<float>()[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(store.first_nonfinite(), "enc0.norm1.weight");
}

}  // namespace
}  // namespace tandem
