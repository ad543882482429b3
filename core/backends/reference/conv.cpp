// Convolution and pooling: one walk over a window serves forward and both gradients.
#include <cmath>
#include <limits>

#include "core/backends/reference/reference_impl.h"

namespace tandem {
namespace {

using Triple = std::array<std::int64_t, 3>;

std::int64_t row_of(std::int64_t n, const Triple& at, const Triple& size) {
  return ((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2];
}

template <class Visit>
void for_each_voxel(const Triple& size, const Visit& visit) {
  for (std::int64_t z = 0; z < size[0]; ++z)
    for (std::int64_t y = 0; y < size[1]; ++y)
      for (std::int64_t x = 0; x < size[2]; ++x) visit(Triple{z, y, x});
}

// Calls visit(output row, input row, tap) for every tap of every output voxel that falls inside the input.
template <class Visit>
void for_each_tap(const ConvGeometry& g, const Visit& visit) {
  for (std::int64_t n = 0; n < g.batch; ++n)
    for_each_voxel(g.out, [&](const Triple& o) {
      for_each_voxel(g.kernel, [&](const Triple& t) {
        Triple i{};
        bool inside = true;
        for (std::size_t a = 0; a < 3; ++a) {
          i[a] = o[a] * g.stride[a] - g.padding[a] + t[a] * g.dilation[a];
          inside = inside && i[a] >= 0 && i[a] < g.in[a];
        }
        if (inside) visit(row_of(n, o, g.out), row_of(n, i, g.in), row_of(0, t, g.kernel));
      });
    });
}

// Calls visit(output row, k, input row, c, index of the weight [K, taps, C/groups]) for every product.
template <class Visit>
void for_each_product(const ConvGeometry& g, const Visit& visit) {
  const std::int64_t group_in = g.in_channels / g.groups, group_out = g.out_channels / g.groups;
  for_each_tap(g, [&](std::int64_t out_row, std::int64_t in_row, std::int64_t tap) {
    for (std::int64_t k = 0; k < g.out_channels; ++k)
      for (std::int64_t c = 0; c < group_in; ++c)
        visit(out_row, k, in_row, k / group_out * group_in + c, (k * g.taps() + tap) * group_in + c);
  });
}

}  // namespace

void ReferenceBackend::conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w,
                                    const Tensor& bias, const Tensor& y) {
  const ReferenceMatrix mx(x), my(y);
  const double* weight = w.data<double>();
  for (std::int64_t r = 0; r < y.rows(); ++r)
    for (std::int64_t k = 0; k < g.out_channels; ++k)
      my(r, k) = bias.defined() ? bias.data<double>()[k] : 0.0;
  for_each_product(g, [&](std::int64_t o, std::int64_t k, std::int64_t i, std::int64_t c, std::int64_t at) {
    my(o, k) += weight[at] * mx(i, c);
  });
}

void ReferenceBackend::conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                                          const Tensor& dx) {
  const ReferenceMatrix mdy(dy), mdx(dx);
  const double* weight = w.data<double>();
  dx.set_zero();
  for_each_product(g, [&](std::int64_t o, std::int64_t k, std::int64_t i, std::int64_t c, std::int64_t at) {
    mdx(i, c) += weight[at] * mdy(o, k);
  });
}

void ReferenceBackend::conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                                             const Tensor& dw) {
  const ReferenceMatrix mx(x), mdy(dy);
  double* gradient = dw.data<double>();
  for_each_product(g, [&](std::int64_t o, std::int64_t k, std::int64_t i, std::int64_t c, std::int64_t at) {
    gradient[at] += mx(i, c) * mdy(o, k);
  });
}

void ReferenceBackend::pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y,
                                    const Tensor& indices) {
  const ConvGeometry& g = args.geometry;
  const ReferenceMatrix mx(x), my(y);
  const std::int64_t voxels = g.in[0] * g.in[1] * g.in[2];
  std::vector<std::int64_t> inside(static_cast<std::size_t>(y.rows()));
  for (std::int64_t r = 0; r < y.rows(); ++r)
    for (std::int64_t c = 0; c < g.in_channels; ++c) my(r, c) = 0;
  for_each_tap(g, [&](std::int64_t o, std::int64_t i, std::int64_t) {
    const bool first = inside[static_cast<std::size_t>(o)]++ == 0;
    for (std::int64_t c = 0; c < g.in_channels; ++c) {
      if (!args.max) {
        my(o, c) += mx(i, c);
      } else if (first || mx(i, c) > my(o, c) || (std::isnan(mx(i, c)) && !std::isnan(my(o, c)))) {
        my(o, c) = mx(i, c);
        indices.data<std::int32_t>()[o * g.in_channels + c] = static_cast<std::int32_t>(i % voxels);
      }
    }
  });
  if (args.max) return;
  for (std::int64_t r = 0; r < y.rows(); ++r)
    for (std::int64_t c = 0; c < g.in_channels; ++c)
      my(r, c) /= static_cast<double>(args.count_padding ? g.taps() : inside[static_cast<std::size_t>(r)]);
}

void ReferenceBackend::pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                                     const Tensor& dx) {
  const ConvGeometry& g = args.geometry;
  const ReferenceMatrix mdy(dy), mdx(dx);
  dx.set_zero();
  if (args.max) {
    const std::int64_t in_voxels = g.in[0] * g.in[1] * g.in[2];
    const std::int64_t out_voxels = g.out[0] * g.out[1] * g.out[2];
    for (std::int64_t r = 0; r < dy.rows(); ++r)
      for (std::int64_t c = 0; c < g.in_channels; ++c)
        mdx(r / out_voxels * in_voxels + indices.data<std::int32_t>()[r * g.in_channels + c], c) += mdy(r, c);
    return;
  }
  std::vector<std::int64_t> inside(static_cast<std::size_t>(dy.rows()));
  for_each_tap(g, [&](std::int64_t o, std::int64_t, std::int64_t) { ++inside[static_cast<std::size_t>(o)]; });
  for_each_tap(g, [&](std::int64_t o, std::int64_t i, std::int64_t) {
    const std::int64_t count = args.count_padding ? g.taps() : inside[static_cast<std::size_t>(o)];
    for (std::int64_t c = 0; c < g.in_channels; ++c) mdx(i, c) += mdy(o, c) / static_cast<double>(count);
  });
}

}  // namespace tandem
