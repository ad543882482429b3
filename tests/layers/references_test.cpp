// One forward and backward of each model equals PyTorch's with the same weights (tests/refs/make_refs.py), a
// forward pass of unet3d_cicek numpy's (tests/refs/make_cicek_refs.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/ops/loss.h"
#include "layers/models/sample_cnn.h"
#include "layers/models/unet3d.h"
#include "layers/models/unet3d_cicek.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using tests::filled;
using tests::RefFile;

struct Setting {
  std::string name;
  Device device;
  DType compute;
  double tolerance;  // relative to the largest value of each tensor; 16 bits: as good as PyTorch
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

bool is_norm_scale(const std::string& name) {
  return name.find("norm") != std::string::npos && name.ends_with("weight");
}

// make_refs.py's fill_parameters.
void fill_parameters(Module& module, ParamStore& store) {
  std::uint32_t stream = 0;
  for (const ParamSegment& segment : store.segments()) {
    const std::int64_t count = segment.shape.numel(),
                       fan_in = count / std::max<std::int64_t>(segment.shape[0], 1);
    const double bound = segment.shape.rank() > 1
                             ? std::exp2(-std::nearbyint(
                                   std::log2(static_cast<double>(std::max<std::int64_t>(fan_in, 1))) / 2))
                             : 0.25;
    std::vector<double> values = filled(count, stream, bound);
    if (is_norm_scale(segment.name))
      for (double& v : values) v += 1;
    const Tensor target = module.parameters()[stream].parameter->master();
    const Tensor source = Tensor::from_values(segment.shape, values, target.dtype(), target.device());
    backend_of(target.device()).map({.kernel = MapKernel::kCopy}, {&source, 1}, target);
    ++stream;
  }
  store.refresh_copies();
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double v : values) result = std::max(result, std::abs(v));
  return result;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  double difference = 0, squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    squares += expected[i] * expected[i];
  }
  return std::sqrt(difference / squares);
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
  EXPECT_LE(worst, tolerance) << what << ", largest expected " << largest(expected);
}

bool is_bias_of_conv(const std::string& name) {
  return name.find(".conv") != std::string::npos && name.ends_with(".bias");
}

// The gradient of `name` as far as it is stored, and ours at the same elements.
struct Gradient {
  std::string name;
  std::vector<double> expected, got;
};

std::vector<Gradient> gradients_of(Module& module, const RefFile& ref, double scale) {
  std::vector<Gradient> all;
  for (const NamedParameter& p : module.parameters()) {
    const bool is_whole = ref.has("grad/" + p.name);
    Gradient gradient{p.name, ref.values("grad/" + p.name + (is_whole ? "" : "/every13")), {}};
    const std::vector<double> values = p.parameter->gradient().to_values();
    for (std::size_t i = 0; i < values.size(); i += is_whole ? 1 : 13)
      gradient.got.push_back(values[i] / scale);
    all.push_back(std::move(gradient));
  }
  return all;
}

// Largest error of each tensor within `tolerance` of its largest value. A bias in front of a norm has the
// true gradient 0: what rounding leaves is measured against the gradient of its layer's weight, which stands
// before it.
void check_every_gradient(const std::vector<Gradient>& gradients, double tolerance) {
  double weight_scale = 0;
  for (const Gradient& g : gradients) {
    double scale = largest(g.expected);
    if (is_bias_of_conv(g.name)) scale = std::max(scale, weight_scale);
    weight_scale = largest(g.expected);
    expect_close(g.got, g.expected, tolerance * scale, g.name);  // heads that are not computed: exactly 0
  }
}

// The sum of g[i] u(i) sees every element of the gradients that are not stored whole; independent errors add
// as their root.
void check_projections(Module& module, const RefFile& ref, double tolerance) {
  for (const NamedParameter& p : module.parameters()) {
    const std::string key = "grad/" + p.name;
    if (ref.has(key)) continue;
    const std::vector<double> values = p.parameter->gradient().to_values();
    const std::vector<double> weights = filled(static_cast<std::int64_t>(values.size()), 999, 1.0);
    double projection = 0;
    for (std::size_t i = 0; i < values.size(); ++i) projection += values[i] * weights[i];
    expect_close(
        {projection}, ref.values(key + "/projection"),
        tolerance * largest(ref.values(key + "/every13")) * std::sqrt(static_cast<double>(values.size())),
        key + "/projection");
  }
}

// In 16 bits a ReLU or a maximum may fall the other way, so errors are judged together, against PyTorch's own
// under autocast.
void check_as_good_as_autocast(const std::vector<Gradient>& gradients, const std::vector<double>& logits,
                               const RefFile& ref, DType compute) {
  const std::vector<double>& theirs = ref.values(compute == DType::kF16 ? "error/f16" : "error/bf16");
  const double logit_error = relative_error(logits, ref.values("logits"));
  EXPECT_LE(logit_error, 1.5 * theirs[0]);
  EXPECT_GT(logit_error, 0.1 * theirs[0]);  // 16 bits were used
  double squares = 0;
  int count = 0;
  for (const Gradient& g : gradients) {
    if (is_bias_of_conv(g.name) || largest(g.expected) == 0) continue;
    const double error = relative_error(g.got, g.expected);
    squares += error * error;
    ++count;
  }
  EXPECT_LE(std::sqrt(squares / count), 2 * theirs[1]);
}

// Integers in the order of the logits' rows.
Tensor labels_for(const Shape& logits, std::int64_t classes, const Device& device) {
  const std::int64_t batch = logits[0], voxels = logits.rank() > 2 ? logits.spatial_numel() : 1;
  std::vector<double> labels = filled(batch * voxels, 501, 1.0);
  for (double& v : labels) v = std::floor((v + 1) / 2 * static_cast<double>(classes));
  return Tensor::from_values(Shape{batch, voxels}, labels, DType::kI32, device).with_shape(logits.with(1, 1));
}

void compare_with_pytorch(Module& module, const std::string& file, std::int64_t classes,
                          const Setting& setting) {
  const RefFile ref(file);
  const bool is_reference = setting.device == kReferenceDevice;
  const Context context{.device = setting.device, .compute = setting.compute};
  ParamStore store(module.parameters(), context, {setting.compute});
  fill_parameters(module, store);
  std::vector<std::int64_t> sizes;
  for (const double size : ref.values("shape")) sizes.push_back(static_cast<std::int64_t>(size));
  const Shape shape(sizes);

  Tape tape(context);
  const Var logits = module(tape.constant(Tensor::from_values(
      shape, filled(shape.numel(), 500, 2.0), is_reference ? DType::kF64 : DType::kF32, setting.device)));
  const Var label = tape.constant(labels_for(logits.shape(), classes, setting.device));
  const Var loss = shape.rank() == 5 ? dice_ce(logits, label) : cross_entropy(logits, label);
  EXPECT_EQ(logits.dtype(), is_reference ? DType::kF64 : setting.compute);
  // A loss scale for FP16: without one the gradients underflow.
  const double scale = setting.compute == DType::kF16 ? 1024 : 1;
  tape.backward(loss, scale);
  const std::vector<Gradient> gradients = gradients_of(module, ref, scale);
  if (is_16_bit_float(setting.compute))
    return check_as_good_as_autocast(gradients, logits.value().to_values(), ref, setting.compute);
  const std::vector<double>& expected = ref.values("logits");
  expect_close(logits.value().to_values(), expected, setting.tolerance * largest(expected), "logits");
  expect_close(loss.value().to_values(), ref.values("loss"), setting.tolerance, "loss");
  check_every_gradient(gradients, setting.tolerance);
  check_projections(module, ref, setting.tolerance);
}

class Models : public testing::TestWithParam<Setting> {};

TEST_P(Models, UNet3dEqualsPyTorch) {
  UNet3d net({.features = {4, 8, 16},
              .strides = {{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}}},
              .kernels = {{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}}}},
             1, 2);
  compare_with_pytorch(net, "unet3d.ref", 2, GetParam());
}

TEST_P(Models, SampleCnnEqualsPyTorch) {
  SampleCnn net(1, 10);
  compare_with_pytorch(net, "sample_cnn.ref", 10, GetParam());
}

// With valid convolutions: a skip that is cropped beside its middle, or concatenated behind what comes up,
// gives other numbers. One size, because one such forward pass is 190e9 multiplications.
TEST(CicekReference, UNet3dCicekEqualsNumpy) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the smallest unpadded volume takes minutes in a sanitized build";
#endif
  const RefFile ref("cicek.ref");
  std::vector<std::int64_t> sizes;
  for (const double size : ref.values("shape")) sizes.push_back(static_cast<std::int64_t>(size));
  const Shape shape(sizes);
  UNet3dCicek net(shape[1], 3, UNet3dCicek::Border::kValid);
  const Context context{.device = kCpuDevice, .compute = DType::kF32};
  ParamStore store(net.parameters(), context, {DType::kF32});
  fill_parameters(net, store);
  Tape tape(context, false);
  const Var logits = net(
      tape.constant(Tensor::from_values(shape, filled(shape.numel(), 500, 2.0), DType::kF32, kCpuDevice)));
  EXPECT_EQ(logits.shape(), (Shape{1, 3, shape[2] - 88, shape[3] - 88, shape[4] - 88}));
  const std::vector<double>& expected = ref.values("logits");
  expect_close(logits.value().to_values(), expected, 1e-4 * largest(expected), "logits");
}

INSTANTIATE_TEST_SUITE_P(Precisions, Models,
                         testing::Values(Setting{"F64", kReferenceDevice, DType::kF32, 1e-9},
                                         Setting{"F32", kCpuDevice, DType::kF32, 1e-5},
                                         Setting{"F16", kCpuDevice, DType::kF16, 0},
                                         Setting{"BF16", kCpuDevice, DType::kBF16, 0}),
                         [](const testing::TestParamInfo<Setting>& info) { return info.param.name; });

}  // namespace
}  // namespace tandem
