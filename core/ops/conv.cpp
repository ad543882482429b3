// Convolution and transposed convolution with their gradients. The transpose runs the same three kernels with
// swapped roles; where the kernel is the stride it is one matrix product whose rows are scattered to blocks.
#include "core/ops/conv.h"

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// Checks what conv and conv_transpose have in common; `kind` is the op.
void require_operands(std::string_view op, const Var& x, const Var& w, std::int64_t groups) {
  require_volume(op, {"input", x});
  require_float(op, {"weight", w});
  if (w.shape().rank() != x.shape().rank())
    fail(ErrorKind::kShape, "[{}] axes differ: input {} has {}, weight {} has {}", op, to_string(x.shape()),
         x.shape().rank(), to_string(w.shape()), w.shape().rank());
  require_extents(op, {"weight", w});
  require_same_dtype(op, {"input", x}, {"weight", w});
  if (w.shape().spatial_numel() == 0 || w.shape()[0] == 0 || w.shape()[1] == 0)
    fail(ErrorKind::kShape, "[{}] weight: got {}, expected no empty axis", op, to_string(w.shape()));
  if (groups < 1 || w.shape()[0] % groups != 0)
    fail(ErrorKind::kShape, "[{}] groups: got {}, expected a divisor of {} for weight {}", op, groups,
         w.shape()[0], to_string(w.shape()));
}

ConvGeometry conv_geometry(const Var& x, const Var& w, const ConvOptions& options) {
  const int rank = x.shape().spatial_rank();
  ConvGeometry g{.spatial_rank = rank,
                 .batch = x.shape()[0],
                 .in_channels = x.shape()[1],
                 .out_channels = w.shape()[0],
                 .groups = options.groups,
                 .in = x.shape().spatial(),
                 .kernel = w.shape().spatial()};
  g.stride = checked_option("conv", "stride", options.stride, rank, 1);
  g.padding = checked_option("conv", "padding", options.padding, rank, 0);
  g.dilation = checked_option("conv", "dilation", options.dilation, rank, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t room = g.in[i] + 2 * g.padding[i] - g.dilation[i] * (g.kernel[i] - 1) - 1;
    if (room < 0)
      throw Error(
          ErrorKind::kShape,
          fmt::format("[conv] the kernel does not fit the padded input: input {}, weight {}, padding {}, "
                      "dilation {}",
                      to_string(x.shape()), to_string(w.shape()), spatial_text(g.padding, rank),
                      spatial_text(g.dilation, rank)),
          "Give a larger input (patch.size) or more padding.");
    g.out[i] = room / g.stride[i] + 1;
  }
  return g;
}

// Of the convolution that is transposed: from y (in) to x (out).
ConvGeometry transpose_geometry(const Var& x, const Var& w, const ConvTransposeOptions& options) {
  constexpr std::string_view kOp = "conv_transpose";
  const int rank = x.shape().spatial_rank();
  ConvGeometry g{.spatial_rank = rank,
                 .batch = x.shape()[0],
                 .in_channels = w.shape()[1] * options.groups,
                 .out_channels = x.shape()[1],
                 .groups = options.groups,
                 .out = x.shape().spatial(),
                 .kernel = w.shape().spatial()};
  g.stride = checked_option(kOp, "stride", options.stride, rank, 1);
  g.padding = checked_option(kOp, "padding", options.padding, rank, 0);
  g.dilation = checked_option(kOp, "dilation", options.dilation, rank, 1);
  const Triple extra = checked_option(kOp, "output_padding", options.output_padding, rank, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    if (extra[i] >= g.stride[i])
      fail(ErrorKind::kShape, "[conv_transpose] output_padding: got {}, expected less than the stride {}",
           spatial_text(extra, rank), spatial_text(g.stride, rank));
    g.in[i] =
        (g.out[i] - 1) * g.stride[i] - 2 * g.padding[i] + g.dilation[i] * (g.kernel[i] - 1) + extra[i] + 1;
    if (g.in[i] < 1)
      fail(ErrorKind::kShape,
           "[conv_transpose] nothing is left of the output: input {}, weight {}, padding {}",
           to_string(x.shape()), to_string(w.shape()), spatial_text(g.padding, rank));
  }
  return g;
}

// Disjoint blocks: kernel = stride, nothing padded or spread.
bool is_block_scatter(const ConvGeometry& g) {
  bool whole = true;  // no output_padding, no padding
  for (std::size_t i = 0; i < 3; ++i) whole = whole && g.in[i] == g.out[i] * g.stride[i];
  return whole && g.kernel == g.stride && g.padding == Triple{0, 0, 0} && g.dilation == Triple{1, 1, 1} &&
         g.groups == 1;
}

// depth_to_space's geometry: from the small grid to the large one.
ConvGeometry scatter_geometry(const ConvGeometry& g) {
  ConvGeometry s = g;
  std::swap(s.in, s.out);
  std::swap(s.in_channels, s.out_channels);
  return s;
}

struct BlockShapes {
  explicit BlockShapes(const ConvGeometry& g)
      : voxels{g.batch * g.out[0] * g.out[1] * g.out[2], g.out_channels},
        weight{g.out_channels, g.taps() * g.in_channels},
        blocks{voxels[0], weight[1]} {}
  Shape voxels, weight, blocks;  // [N*in, C] [C, taps*K] [N*in, taps*K]: x, w and their product
};

// What backward needs: the geometry, and per gradient the other operand.
struct ConvSaved {
  ConvSaved(const ConvGeometry& geometry, const Var& x, const Var& w) : g(geometry) {
    if (x.requires_grad()) for_x = w.value();
    if (w.requires_grad()) for_w = x.value();
  }
  ConvGeometry g;
  Tensor for_x, for_w;
};

void transpose_by_blocks(const ConvGeometry& g, const Var& x, const Var& w, const Tensor& bias,
                         const Tensor& y) {
  Backend& backend = x.tape().backend();
  const BlockShapes shapes(g);
  // The products stay in FP32 until the bias is added: one rounding.
  const DType dtype = bias.defined() ? accumulation_dtype(y.dtype()) : y.dtype();
  const Tensor blocks(shapes.blocks, dtype, y.device(), MemoryCategory::kWorkspace);
  backend.gemm({}, x.value().with_shape(shapes.voxels), w.value().with_shape(shapes.weight), blocks);
  backend.depth_to_space(scatter_geometry(g), blocks, bias, y, false);
}

void transpose_by_conv(const ConvGeometry& g, const Var& x, const Var& w, const Tensor& bias,
                       const Tensor& y) {
  Backend& backend = x.tape().backend();
  backend.conv_backward_data(g, x.value(), w.value(), y);
  if (bias.defined()) backend.map({.kernel = MapKernel::kAdd}, {{y, bias}}, y);
}

// Adds the gradient of w and writes that of x (undefined: not needed), given dy.
void blocks_backward(const ConvSaved& s, const Var& w, const Tensor& dy, const Tensor& dx) {
  Backend& backend = w.tape().backend();
  const BlockShapes shapes(s.g);
  const Tensor blocks(shapes.blocks, dy.dtype(), dy.device());
  backend.depth_to_space(scatter_geometry(s.g), blocks, {}, dy, true);
  w.add_to_gradient([&](const Tensor& dw) {
    backend.gemm({.transpose_a = true, .accumulate = true}, s.for_w.with_shape(shapes.voxels), blocks,
                 dw.with_shape(shapes.weight));
  });
  if (dx.defined())
    backend.gemm({.transpose_b = true}, blocks, s.for_x.with_shape(shapes.weight),
                 dx.with_shape(shapes.voxels));
}

void transpose_by_conv_backward(const ConvSaved& s, const Var& w, const Tensor& dy, const Tensor& dx) {
  Backend& backend = w.tape().backend();
  w.add_to_gradient([&](const Tensor& dw) { backend.conv_backward_weights(s.g, dy, s.for_w, dw); });
  if (dx.defined()) backend.conv_forward(s.g, dy, s.for_x, {}, dx);
}

void conv_backward(const ConvSaved& s, const Var& w, const Tensor& dy, const Tensor& dx) {
  Backend& backend = w.tape().backend();
  w.add_to_gradient([&](const Tensor& dw) { backend.conv_backward_weights(s.g, s.for_w, dy, dw); });
  if (dx.defined()) backend.conv_backward_data(s.g, dy, s.for_x, dx);
}

// The closure of all three: bias, weight and input gradients; zeros for an empty batch.
using OperandBackward = void (*)(const ConvSaved&, const Var&, const Tensor&, const Tensor&);
BackwardClosure conv_closure(OperandBackward backward, const ConvSaved& saved, const Var& x, const Var& w,
                             const Var& bias) {
  return [=, x = x.gradient_only(), w = w.gradient_only(), bias = bias.gradient_only()](const Tensor& dy) {
    const bool empty = dy.numel() == 0;
    bias.add_to_gradient([&](const Tensor& db) {
      if (!empty) bias.tape().backend().reduce_rows(dy, {}, db);
    });
    const Tensor dx = x.requires_grad() ? Tensor(x.shape(), dy.dtype(), dy.device()) : Tensor();
    if (empty)
      w.add_to_gradient([](const Tensor&) {});
    else
      backward(saved, w, dy, dx);
    if (dx.defined()) x.accumulate(dx);
  };
}

}  // namespace

Var conv(const Var& x, const Var& w, const Var& bias, const ConvOptions& options) {
  require_operands("conv", x, w, options.groups);
  if (x.shape()[1] != w.shape()[1] * options.groups)
    fail(ErrorKind::kShape,
         "[conv] input channels do not match the weight: input {} has {}, weight {} expects {}{}",
         to_string(x.shape()), x.shape()[1], to_string(w.shape()), w.shape()[1] * options.groups,
         options.groups > 1 ? fmt::format(" in {} groups", options.groups) : "");
  if (bias.defined()) require_kept_vector("conv", {"bias", bias}, w.shape()[0], {"weight", w});
  const ConvGeometry g = conv_geometry(x, w, options);
  const Tensor y(volume_shape(g.batch, g.out_channels, g.out, g.spatial_rank), x.dtype(), x.value().device());
  if (y.numel() > 0)
    x.tape().backend().conv_forward(g, x.value(), w.value(), bias.defined() ? bias.value() : Tensor(), y);
  return x.tape().record("conv", y, {x, w, bias},
                         conv_closure(conv_backward, ConvSaved(g, x, w), x, w, bias));
}

Var conv_transpose(const Var& x, const Var& w, const Var& bias, const ConvTransposeOptions& options) {
  require_operands("conv_transpose", x, w, options.groups);
  if (x.shape()[1] != w.shape()[0])
    fail(ErrorKind::kShape,
         "[conv_transpose] input channels do not match the weight: input {} has {}, weight {} expects {}",
         to_string(x.shape()), x.shape()[1], to_string(w.shape()), w.shape()[0]);
  if (bias.defined())
    require_kept_vector("conv_transpose", {"bias", bias}, w.shape()[1] * options.groups, {"weight", w});
  const ConvGeometry g = transpose_geometry(x, w, options);
  const bool by_blocks = is_block_scatter(g);
  const Tensor y(volume_shape(g.batch, g.in_channels, g.in, g.spatial_rank), x.dtype(), x.value().device());
  if (y.numel() > 0)
    (by_blocks ? transpose_by_blocks : transpose_by_conv)(g, x, w, bias.defined() ? bias.value() : Tensor(),
                                                          y);
  return x.tape().record(
      "conv_transpose", y, {x, w, bias},
      conv_closure(by_blocks ? blocks_backward : transpose_by_conv_backward, ConvSaved(g, x, w), x, w, bias));
}

}  // namespace tandem
