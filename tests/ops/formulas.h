// The ops' definitions over values in logical order (N, C, D, H, W), written from PyTorch's documentation:
// what the reference backend is checked against. Shares no code with it.
#pragma once

#include <array>

#include "core/ops/loss.h"
#include "core/tensor/shape.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {

struct WindowOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;
};

// y[n,k,o] = bias[k] + sum x[n, group(k) C/g + c, o s - p + t d] w[k,c,t]; bias may be empty.
Values conv_formula(const Shape& x_shape, const Shape& w_shape, const InputValues& operands,
                    const Shape& y_shape, const WindowOptions& options);
// Scatter: y[n, k, i s - p + t d] += x[n,c,i] w[c,k,t].
Values conv_transpose_formula(const Shape& x_shape, const Shape& w_shape, const InputValues& operands,
                              const Shape& y_shape, const WindowOptions& options);
// a [m,k] b [k,n]; b [n,k] when transposed; bias [n] or empty.
Values matmul_formula(const InputValues& operands, std::int64_t m, std::int64_t k, std::int64_t n,
                      bool transposed);
// Says which elements (n, c, voxel) share a mean and a variance: those with one key.
using NormKey = std::function<std::int64_t(std::int64_t n, std::int64_t c, std::int64_t voxel)>;
// (x - mean) / sqrt(var + 1e-5) scale + shift with the statistics of each key; operands x, scale, shift.
Values norm_formula(const Shape& shape, const InputValues& operands, const NormKey& key);
// Largest or mean value of each window; the mean over all taps, or over those inside.
Values pool_formula(const Shape& shape, const Values& x, const Shape& y_shape,
                    const std::array<std::int64_t, 3>& window, const WindowOptions& options, bool max,
                    bool count_padding);
// exp(x) / sum exp(x) over axis 1.
Values softmax_formula(const Shape& shape, const Values& x);
// ce_weight CE - dice_weight mean D, as nnU-Net v2's DC_and_CE_loss with PyTorch's cross_entropy; one label
// per voxel, in logical order.
double dice_ce_formula(const Shape& shape, const Values& logits, const Values& labels,
                       const DiceCeOptions& options);

}  // namespace tandem::testing
