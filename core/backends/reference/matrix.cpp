// Matrix product, and the two copies that only move elements.
#include "core/backends/reference/reference_impl.h"

namespace tandem {

void ReferenceBackend::gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) {
  const ReferenceMatrix ma(a), mb(b), mc(c);
  const std::int64_t inner = args.transpose_a ? a.shape()[0] : a.shape()[1];
  for (std::int64_t i = 0; i < c.shape()[0]; ++i)
    for (std::int64_t j = 0; j < c.shape()[1]; ++j) {
      double sum = args.accumulate ? mc(i, j) : 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += (args.transpose_a ? ma(k, i) : ma(i, k)) * (args.transpose_b ? mb(j, k) : mb(k, j));
      mc(i, j) = sum;
    }
}

void ReferenceBackend::reorder(const Tensor& x, const Tensor& y, bool to_logical) {
  const Shape& shape = to_logical ? x.shape() : y.shape();
  const std::int64_t channels = shape.channels(), voxels = shape.spatial_numel();
  const double* from = x.data<double>();
  double* to = y.data<double>();
  for (std::int64_t n = 0; n < shape.batch(); ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t v = 0; v < voxels; ++v) {
        const std::int64_t logical = (n * channels + c) * voxels + v;
        const std::int64_t stored = (n * voxels + v) * channels + c;
        to[to_logical ? logical : stored] = from[to_logical ? stored : logical];
      }
}

void ReferenceBackend::depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias,
                                      const Tensor& volume, bool inverse) {
  const ReferenceMatrix mb(blocks), mv(volume);
  const std::int64_t channels = volume.channels();
  const auto [depth, height, width] = volume.shape().spatial();
  const auto [sd, sh, sw] = g.stride;
  std::int64_t row = 0;
  for (std::int64_t n = 0; n < volume.shape().batch(); ++n)
    for (std::int64_t z = 0; z < depth; ++z)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x, ++row) {
          const std::int64_t voxel =
              ((n * (depth / sd) + z / sd) * (height / sh) + y / sh) * (width / sw) + x / sw;
          const std::int64_t tap = ((z % sd) * sh + y % sh) * sw + x % sw;
          for (std::int64_t c = 0; c < channels; ++c) {
            double& block = mb(voxel, tap * channels + c);
            if (inverse)
              block = mv(row, c);
            else
              mv(row, c) = block + (bias.defined() ? bias.data<double>()[c] : 0.0);
          }
        }
}

}  // namespace tandem
