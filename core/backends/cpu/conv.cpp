// Convolution: the call of each engine.
#include "core/backends/cpu/conv.h"

#include <algorithm>

#include "core/backends/cpu/conv_slab.h"
#include "core/backends/cpu/conv_staging.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

// What a packed copy was made for: part of its cache key.
enum class PackedFor { kDirectForward, kDirectData, kOneDnn, kTileForward, kTileData };

// A convolution of a 1x1x1 kernel that visits every voxel once is one long row.
ConvGeometry collapsed(const ConvGeometry& g) {
  const bool pointwise = g.taps() == 1 && g.stride == std::array<std::int64_t, 3>{1, 1, 1} &&
                         g.padding == std::array<std::int64_t, 3>{0, 0, 0} && g.in == g.out;
  if (!pointwise) return g;
  ConvGeometry flat;
  flat.spatial_rank = 1;
  flat.in_channels = g.in_channels;
  flat.out_channels = g.out_channels;
  flat.in[2] = flat.out[2] = g.batch * g.in[0] * g.in[1] * g.in[2];
  return flat;
}

// One tensor as an engine's operand or result.
struct Side {
  VoxelRows rows;
  std::int64_t columns = 0;
  bool staged = false;
  StageJob job;  // without src, rows, dst

  std::int64_t bytes_per_row() const {
    StageJob one = job;
    one.rows = 1;
    return staged ? staged_bytes(one) : 0;
  }
  Scratch buffer(const IndexRange& range) const {
    return Scratch(static_cast<std::size_t>(range.size() * bytes_per_row()));
  }
  // The rows `range` as packed operand: in place, or staged into `buffer`.
  const void* operand(const KernelTable& kernels, const IndexRange& range, const Scratch& buffer) const {
    const VoxelRows part = rows_from(rows, range.begin);
    if (!staged) return part.data;
    StageJob stage = job;
    stage.src = part;
    stage.rows = range.size();
    stage.dst = buffer.data();
    stage_rows(kernels, stage);
    return buffer.data();
  }
};

Side operand_side(Engine engine, const Tensor& t) {
  Side result{rows_of(t), t.channels(), false, {}};
  result.job.columns = t.channels();
  result.job.src.dtype = t.dtype();
  result.job.kind = engine == Engine::kWidened ? StageKind::kWiden : StageKind::kCopy;
  result.staged = engine != Engine::kOneDnn || !t.is_packed();
  return result;
}

Side result_side(const Tensor& t, DType result_dtype) {
  Side result{rows_of(t), t.channels(), t.dtype() != result_dtype || !t.is_packed(), {}};
  result.job.columns = t.channels();
  result.job.src.dtype = result_dtype;
  return result;
}

}  // namespace

DType CpuConv::element_of(Engine engine, DType tensor) const {
  return engine == Engine::kWidened ? DType::kF32 : tensor;
}

namespace {

// The copies of own kernels do not depend on batch and extents.
CacheKey own_key(ConvGeometry g, PackedFor kind, DType dtype) {
  g.batch = 1;
  g.in = g.out = {1, 1, 1};
  return cache_key(g, {static_cast<int>(kind), static_cast<int>(dtype)});
}

}  // namespace

std::shared_ptr<const Scratch> CpuConv::tile_weights(const ConvGeometry& g, bool data_gradient,
                                                     const Tensor& w) const {
  const TileConv& tiles = context_->tiles;
  const CacheKey key = own_key(g, data_gradient ? PackedFor::kTileData : PackedFor::kTileForward, w.dtype());
  const auto bytes =
      static_cast<std::size_t>(tiles.packed_elements(g, data_gradient)) * sizeof(std::uint16_t);
  return context_->packed.get(w, key, bytes, [&](void* packed) {
    const Scratch wide(static_cast<std::size_t>(w.numel()) * sizeof(float));
    stage_rows(context_->kernels, {StageKind::kWiden, rows_of(w), w.rows(), w.channels(), wide.data()});
    tiles.pack_weights(g, data_gradient, wide.as<float>(), dense_weights(g),
                       static_cast<std::uint16_t*>(packed));
  });
}

std::shared_ptr<const Scratch> CpuConv::direct_weights(const ConvGeometry& g, bool data_gradient,
                                                       const Tensor& w) const {
  const DirectConv& direct = context_->direct;
  const CacheKey key =
      own_key(g, data_gradient ? PackedFor::kDirectData : PackedFor::kDirectForward, w.dtype());
  const auto bytes = static_cast<std::size_t>(direct.packed_floats(g, data_gradient)) * sizeof(float);
  return context_->packed.get(w, key, bytes, [&](void* packed) {
    const Scratch wide(static_cast<std::size_t>(w.numel()) * sizeof(float));
    stage_rows(context_->kernels, {StageKind::kWiden, rows_of(w), w.rows(), w.channels(), wide.data()});
    direct.pack_weights(g, data_gradient, wide.as<float>(), dense_weights(g), static_cast<float*>(packed));
  });
}

std::shared_ptr<const Scratch> CpuConv::onednn_weights(Engine engine, const OneDnnConv& conv,
                                                       const ConvGeometry& g, const Tensor& w) const {
  const CacheKey key =
      cache_key(conv.geometry, {static_cast<int>(PackedFor::kOneDnn), static_cast<int>(engine),
                                static_cast<int>(conv.pass), static_cast<int>(conv.operand),
                                static_cast<int>(conv.result), conv.bias, compute_threads()});
  return context_->packed.get(w, key, context_->onednn.packed_bytes(conv), [&](void* packed) {
    if (engine == Engine::kOneDnn) return context_->onednn.pack_weights(conv, w.raw(), packed);
    StageJob job{StageKind::kWiden, rows_of(w), g.out_channels * g.taps(), g.in_channels / g.groups};
    const Scratch staged(static_cast<std::size_t>(staged_bytes(job)));
    job.dst = staged.data();
    stage_rows(context_->kernels, job);
    context_->onednn.pack_weights(conv, staged.data(), packed);
  });
}

void CpuConv::forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Tensor& y) const {
  forward(choose_conv_engine(ConvPass::kForward, g, x.dtype(), context_->target), g, x, w, bias, y);
}

void CpuConv::backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                            const Tensor& dx) const {
  backward_data(choose_conv_engine(ConvPass::kBackwardData, g, dy.dtype(), context_->target), g, dy, w, dx);
}

void CpuConv::backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                               const Tensor& dw) const {
  backward_weights(choose_conv_engine(ConvPass::kBackwardWeights, g, x.dtype(), context_->target), g, x, dy,
                   dw);
}

void CpuConv::forward(Engine engine, const ConvGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias, const Tensor& y) const {
  if (y.numel() == 0) return;
  const float* b = bias.defined() ? bias.data<float>() : nullptr;
  if (engine == Engine::kDirect) {
    const ConvGeometry flat = collapsed(g);
    const auto packed = direct_weights(flat, false, w);
    return context_->direct.forward(flat, rows_of(x), packed->as<float>(), b, mutable_rows_of(y));
  }
  if (engine == Engine::kTiles) {
    const ConvGeometry flat = collapsed(g);
    const auto packed = tile_weights(flat, false, w);
    return context_->tiles.forward(flat, rows_of(x), packed->as<std::uint16_t>(), b, mutable_rows_of(y));
  }
  OneDnnConv conv{ConvPass::kForward, g, element_of(engine, x.dtype()), DType::kF32, b != nullptr};
  if (engine == Engine::kOneDnn) conv.result = y.dtype();
  const Side from = operand_side(engine, x);
  const Side to = result_side(y, conv.result);
  for (const ConvSlab& slab : output_slabs(g, {from.bytes_per_row(), to.bytes_per_row(), slab_bytes_})) {
    conv.geometry = slab.geometry;
    const auto packed = onednn_weights(engine, conv, g, w);
    const Scratch in = from.buffer(slab.x), out = to.buffer(slab.y);
    const MutableVoxelRows target = rows_from(mutable_rows_of(y), slab.y.begin);
    void* result = to.staged ? out.data() : target.data;
    context_->onednn.forward(conv, from.operand(context_->kernels, slab.x, in), packed->data(), b, result);
    if (to.staged) unstage_rows(context_->kernels, result, conv.result, slab.y.size(), y.channels(), target);
  }
}

void CpuConv::backward_data(Engine engine, const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                            const Tensor& dx) const {
  if (dx.numel() == 0) return;
  if (engine == Engine::kDirect) {
    const ConvGeometry flat = collapsed(g);
    const auto packed = direct_weights(flat, true, w);
    return context_->direct.backward_data(flat, rows_of(dy), packed->as<float>(), mutable_rows_of(dx));
  }
  if (engine == Engine::kTiles) {
    const ConvGeometry flat = collapsed(g);
    const auto packed = tile_weights(flat, true, w);
    return context_->tiles.backward_data(flat, rows_of(dy), packed->as<std::uint16_t>(), mutable_rows_of(dx));
  }
  OneDnnConv conv{ConvPass::kBackwardData, g, element_of(engine, dy.dtype()), DType::kF32, false};
  if (engine == Engine::kOneDnn) conv.result = dx.dtype();
  const Side from = operand_side(engine, dy);
  const Side to = result_side(dx, conv.result);
  for (const ConvSlab& slab : input_slabs(g, {to.bytes_per_row(), from.bytes_per_row(), slab_bytes_})) {
    conv.geometry = slab.geometry;
    const auto packed = onednn_weights(engine, conv, g, w);
    const Scratch in = from.buffer(slab.y), out = to.buffer(slab.x);
    const MutableVoxelRows target = rows_from(mutable_rows_of(dx), slab.x.begin);
    void* result = to.staged ? out.data() : target.data;
    context_->onednn.backward_data(conv, from.operand(context_->kernels, slab.y, in), packed->data(), result);
    if (to.staged) unstage_rows(context_->kernels, result, conv.result, slab.x.size(), dx.channels(), target);
  }
}

void CpuConv::backward_weights(Engine engine, const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                               const Tensor& dw) const {
  if (dy.numel() == 0 || dw.numel() == 0) return;
  float* gradient = dw.data<float>();
  if (engine == Engine::kDirect) {
    const ConvGeometry flat = collapsed(g);
    return context_->direct.backward_weights(flat, rows_of(x), rows_of(dy), gradient, dense_weights(flat));
  }
  OneDnnConv conv{ConvPass::kBackwardWeights, g, element_of(engine, x.dtype()), DType::kF32, false};
  const Side left = operand_side(engine, x), right = operand_side(engine, dy);
  for (const ConvSlab& slab : output_slabs(g, {left.bytes_per_row(), right.bytes_per_row(), slab_bytes_})) {
    conv.geometry = slab.geometry;
    const Scratch x_buffer = left.buffer(slab.x), dy_buffer = right.buffer(slab.y);
    const void* x_operand = left.operand(context_->kernels, slab.x, x_buffer);
    context_->onednn.backward_weights(conv, x_operand, right.operand(context_->kernels, slab.y, dy_buffer),
                                      gradient);
  }
}

}  // namespace tandem
