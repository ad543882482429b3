// Convolution in one to three dimensions and its transpose, with gradients. Weights are parameters of
// ParamStore or any Var; bias and weight gradients are FP32.
#pragma once

#include <array>

#include "core/autograd/tape.h"

namespace tandem {

// Triples are depth, height, width; for fewer dimensions the leading ones are not read (2-D: {_, height,
// width}).
struct ConvOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;
};

// y[n,k,o] = bias[k] + sum over c, t of w[k,c,t] x[n, c, o*stride - padding + t*dilation]
// x [N,C,(D,(H,))W], w [K,C/groups,(kd,(kh,))kw] of x's dtype, bias F32 [K] or undefined -> y [N,K,out], x's
// dtype.
Var conv(const Var& x, const Var& w, const Var& bias, const ConvOptions& options = {});

struct ConvTransposeOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, output_padding{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;
};

// The transpose of conv: out = (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
// x [N,C,in], w [C,K/groups,kernel] (PyTorch's order), bias F32 [K] or undefined -> y [N,K,out].
// output_padding is less than the stride. Where the kernel is the stride and nothing is padded, dilated or
// grouped, it is a matrix product and a scatter, rounded once; else a 16-bit result is rounded once more when
// the bias is added.
Var conv_transpose(const Var& x, const Var& w, const Var& bias, const ConvTransposeOptions& options = {});

}  // namespace tandem
