// Kernels over all their types: every elementwise functor between every two dtypes, every activation in every
// scope of normalisation, losses over many classes; against the double reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/device_tensors.h"

namespace tandem::testing {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

double rounding(DType dtype) { return dtype == DType::kF32 ? 4e-6 : dtype == DType::kF16 ? 0x1p-10 : 0x1p-7; }

void compare_map(MapKernel kernel, std::size_t arity, DType in, DType out) {
  const std::int64_t n = 301;
  const MapArgs args{.kernel = kernel, .params = {.a = 0.25, .b = 0.5}, .accumulate = out == DType::kF32};
  std::vector<Tensor> inputs, doubles;
  for (std::size_t k = 0; k < arity; ++k) {
    inputs.push_back(on_device({n, 1}, random_numbers(n, static_cast<unsigned>(k), -3, 3), in));
    doubles.push_back(exact(inputs.back()));
  }
  const Tensor result = on_device({n, 1}, Numbers(static_cast<std::size_t>(n), 1), out), want = exact(result);
  cuda_backend().map(args, inputs, result);
  reference().map(args, doubles, want);
  expect_near(result, want, rounding(out),
              std::string(kMapKernelNames[static_cast<std::size_t>(kernel)]) + " " + std::string(name(in)) +
                  " to " + std::string(name(out)));
}

TEST(CudaMap, EveryFunctorBetweenEveryTwoDTypes) {
  for (std::size_t i = 0; i < std::size(kMapKernelNames); ++i) {
    const auto kernel = static_cast<MapKernel>(i);
    std::size_t arity = 0;
    visit_map_kernel(kernel, [&]<class F>() { arity = F::kArity; });
    for (const DType in : kDTypes)
      for (const DType out : kDTypes) compare_map(kernel, arity, in, out);
  }
}

struct NormRun {
  NormTensors t;
  Tensor y, dx;
};

NormRun run_norm(Backend& backend, const NormArgs& args, const Tensor& x, const Tensor& dy, NormRun run) {
  backend.norm_forward(args, x, run.t, run.y);
  backend.norm_backward(args, dy, x, run.t, run.dx);
  return run;
}

void compare_norm(Activation activation, const Shape& statistics, DType dtype, bool fixed) {
  const Shape shape{2, 36, 7, 5};
  const NormArgs args{.activation = activation, .slope = 0.25, .fixed = fixed};
  const Tensor x = on_device(shape, random_numbers(shape.numel(), 20, -1, 3), dtype);
  const Tensor dy = on_device(shape, random_numbers(shape.numel(), 21), dtype);
  NormRun device, doubles;
  device.t.scale = on_device({36}, random_numbers(36, 22, 0.5, 1.5));
  device.t.shift = on_device({36}, random_numbers(36, 23));
  device.t.mean = on_device(statistics, random_numbers(statistics.numel(), 24));
  device.t.variance = on_device(statistics, random_numbers(statistics.numel(), 25, 0.5, 1));
  device.t.inv_std = Tensor(statistics, DType::kF32, emulated_device());
  device.t.dscale = on_device({36}, random_numbers(36, 26));
  device.t.dshift = on_device({36}, random_numbers(36, 27));
  for (const auto tensor : {&NormTensors::scale, &NormTensors::shift, &NormTensors::mean,
                            &NormTensors::variance, &NormTensors::dscale, &NormTensors::dshift})
    doubles.t.*tensor = exact(device.t.*tensor);
  doubles.t.inv_std = Tensor(statistics, DType::kF64, kReferenceDevice);
  device.y = Tensor(shape, dtype, emulated_device());
  device.dx = Tensor(shape, dtype, emulated_device());
  doubles.y = Tensor(shape, DType::kF64, kReferenceDevice);
  doubles.dx = Tensor(shape, DType::kF64, kReferenceDevice);
  device = run_norm(cuda_backend(), args, x, dy, device);
  doubles = run_norm(reference(), args, exact(x), exact(dy), doubles);
  const std::string where = to_string(statistics) + " activation " +
                            std::to_string(static_cast<int>(activation)) + " " + std::string(name(dtype));
  expect_near(device.y, doubles.y, rounding(dtype), where + " y");
  expect_near(device.dx, doubles.dx, rounding(dtype), where + " dx");
  for (const auto tensor :
       {&NormTensors::mean, &NormTensors::variance, &NormTensors::inv_std, &NormTensors::dshift})
    expect_near(device.t.*tensor, doubles.t.*tensor, 2e-5, where);
  expect_near(device.t.dscale, doubles.t.dscale, 5e-5, where + " dscale");
}

TEST(CudaNorm, EveryActivationInEveryScope) {
  const Shape instance{2, 36}, batch{1, 36}, group{2, 4}, layer{70, 1};
  for (int a = 0; a <= static_cast<int>(Activation::kSoftplus); ++a)
    for (const DType dtype : kDTypes) {
      const auto activation = static_cast<Activation>(a);
      for (const Shape& statistics : {instance, batch, group, layer})
        compare_norm(activation, statistics, dtype, false);
      compare_norm(activation, batch, dtype, true);
    }
}

void compare_loss(const SegmentationLossArgs& args, const Shape& shape, DType dtype) {
  const std::int64_t classes = shape[1], rows = shape.numel() / classes;
  const Shape labels_shape = args.multi_label ? shape : shape.with(1, 1);
  Numbers labels =
      random_numbers(labels_shape.numel(), 30, 0, args.multi_label ? 2 : static_cast<double>(classes));
  for (double& label : labels) label = std::floor(label);
  if (args.has_ignore_label) labels[static_cast<std::size_t>(labels_shape.numel() / 3)] = args.ignore_label;
  const Numbers weights = random_numbers(rows, 31, 0.5, 2);
  const Shape sums{shape[0], 3 * classes + 2};
  LossTensors device{.logits = on_device(shape, random_numbers(shape.numel(), 32, -3, 3), dtype),
                     .labels = on_device(labels_shape, labels, DType::kI32),
                     .sums = Tensor(sums, DType::kF64, emulated_device()),
                     .voxel_weights = on_device(shape.with(1, 1), weights)};
  LossTensors doubles{
      .logits = exact(device.logits),
      .labels = Tensor::from_values(labels_shape, labels, DType::kI32, kReferenceDevice),
      .sums = Tensor(sums, DType::kF64, kReferenceDevice),
      .voxel_weights = Tensor::from_values(shape.with(1, 1), weights, DType::kF32, kReferenceDevice)};
  const Tensor loss = on_device({1}, {0}), want = exact(loss), seed = on_device({1}, {2});
  const Tensor dx(shape, dtype, emulated_device()), want_dx(shape, DType::kF64, kReferenceDevice);
  cuda_backend().segmentation_loss(args, device, loss);
  cuda_backend().segmentation_loss_backward(args, device, seed, dx);
  reference().segmentation_loss(args, doubles, want);
  reference().segmentation_loss_backward(args, doubles, exact(seed), want_dx);
  const std::string where = to_string(shape) + " " + std::string(name(dtype));
  expect_near(device.sums, doubles.sums, 2e-5, where + " sums");
  expect_near(loss, want, 1e-5, where + " loss");
  expect_near(dx, want_dx, rounding(dtype) / 4, where + " dx");
}

// More classes than a warp has threads, more chunks than one block merges in a round.
TEST(CudaLoss, ManyClassesAndChunks) {
  for (const DType dtype : kDTypes)
    for (const bool sigmoid : {false, true})
      for (const double gamma : {0.0, 2.0}) {
        SegmentationLossArgs args{.dice_background = true, .has_ignore_label = true, .ignore_label = 255};
        args.gamma = gamma;
        if (sigmoid) args.activation = LossActivation::kSigmoid;
        compare_loss(args, {2, 70, 7, 9}, dtype);
        compare_loss(args, {2, 3, 30, 23}, dtype);
        args.multi_label = sigmoid;
        if (sigmoid) compare_loss(args, {1, 37, 600}, dtype);
      }
  compare_loss({}, {1, 2, 70000}, DType::kF16);
  compare_loss({.activation = LossActivation::kSigmoid}, {1, 2, 70000}, DType::kF16);
}

}  // namespace
}  // namespace tandem::testing
