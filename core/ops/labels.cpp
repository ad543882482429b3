// Loops over labels on the host.
#include "core/ops/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/base/error.h"

namespace tandem {
namespace {

using Sizes = std::array<std::int64_t, 3>;

// The input voxel of each output voxel along one axis.
std::vector<std::int64_t> nearest(std::int64_t in, std::int64_t out) {
  std::vector<std::int64_t> from(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) from[static_cast<std::size_t>(i)] = (2 * i + 1) * in / (2 * out);
  return from;
}

struct AxisMaps {
  std::vector<std::int64_t> z, y, x;
};

template <class T>
void copy_nearest(const Tensor& from, const AxisMaps& maps, const Tensor& to) {
  const Sizes in = from.shape().spatial();
  const std::int64_t channels = from.shape()[1];
  T* target = to.data<T>();
  for (std::int64_t n = 0; n < from.shape()[0]; ++n)
    for (const std::int64_t d : maps.z)
      for (const std::int64_t h : maps.y)
        for (const std::int64_t w : maps.x) {
          const T* voxel = from.data<T>() + (((n * in[0] + d) * in[1] + h) * in[2] + w) * channels;
          target = std::copy(voxel, voxel + channels, target);
        }
}

}  // namespace

Tensor nearest_voxels(const Tensor& voxels, const Shape& to) {
  const Shape& shape = voxels.shape();
  const bool has_dtype = voxels.dtype() == DType::kI32 || voxels.dtype() == DType::kF32;
  if (!has_dtype || shape.rank() != to.rank() || shape.rank() < 3)
    fail(ErrorKind::kShape, "[nearest_voxels] voxels: got {}, expected I32 or F32 of the axes of {}",
         to_string(voxels), to_string(to));
  const Sizes in = shape.spatial(), out = to.spatial();
  if (in == out) return voxels;
  Shape result_shape = shape;
  for (int axis = 2; axis < shape.rank(); ++axis) result_shape = result_shape.with(axis, to[axis]);
  const Tensor host = voxels.to_device(kCpuDevice), result(result_shape, voxels.dtype(), kCpuDevice);
  const AxisMaps maps{nearest(in[0], out[0]), nearest(in[1], out[1]), nearest(in[2], out[2])};
  if (voxels.dtype() == DType::kI32)
    copy_nearest<std::int32_t>(host, maps, result);
  else
    copy_nearest<float>(host, maps, result);
  return result.to_device(voxels.device());
}

Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype) {
  if (labels.dtype() != DType::kI32 || labels.channels() != 1)
    fail(ErrorKind::kShape, "[one_hot] labels: got {}, expected I32 [N, 1, spatial]", to_string(labels));
  const std::vector<double> values = labels.to_values();
  const std::int64_t voxels = labels.shape().spatial_numel();
  const Shape shape = labels.shape().with(1, classes);
  std::vector<double> hot(static_cast<std::size_t>(shape.numel()), 0.0);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const auto label = static_cast<std::int64_t>(values[static_cast<std::size_t>(i)]);
    if (label < 0 || label >= classes)
      fail(ErrorKind::kShape, "[one_hot] label: got {}, expected 0 to {}", label, classes - 1);
    hot[static_cast<std::size_t>((i / voxels * classes + label) * voxels + i % voxels)] = 1;
  }
  return Tensor::from_values(shape, hot, dtype, labels.device());
}

std::vector<double> class_weights(ClassWeightRule rule, const std::vector<std::int64_t>& counts) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  std::vector<double> weights;
  for (const std::int64_t count : counts) {
    if (count <= 0)
      throw Error(
          ErrorKind::kShape,
          fmt::format("[class_weights] class {}: got {} samples, expected at least 1", weights.size(), count),
          "Give the weights as a list.");
    const auto n = static_cast<double>(count);
    const double inverse = all / (static_cast<double>(counts.size()) * n);
    weights.push_back(rule == ClassWeightRule::kInverse ? inverse
                      : rule == ClassWeightRule::kSqrt  ? std::sqrt(inverse)
                                                        : 0.001 / (1 - std::pow(0.999, n)));
  }
  if (rule == ClassWeightRule::kInverse) return weights;
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  for (double& weight : weights) weight /= mean;
  return weights;
}

}  // namespace tandem
