// Layer norm: rows cut into chunks, partial sums of the parameters' gradients combined in their order.
#include <algorithm>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"

namespace tandem {
namespace {

using loop_views::float_matrix;

// The loop, and the scratch of its threads.
struct LayerNorm {
  LayerNorm(const NormArgs& args, const Tensor& x, const NormTensors& t) {
    const std::int64_t channels = x.channels();
    loop.threads = compute_threads();
    loop.activation = args.activation;
    loop.params = {.a = args.slope};
    loop.eps = static_cast<float>(args.eps);
    loop.block_rows = std::clamp<std::int64_t>(4096 / channels, 4, 256);
    loop.chunks = loop_views::chunks_of(1, x.rows(), channels, std::max<std::int64_t>(loop.block_rows, 64));
    loop.x = float_matrix(x);
    loop.scale = t.scale.data<float>();
    loop.shift = t.shift.data<float>();
    loop.mean = t.mean.data<float>();
    loop.inv_std = t.inv_std.data<float>();
    scratch = loop_views::scratch<float>(loop.threads * (4 * loop.block_rows + 2) * channels);
    loop.scratch = scratch.get();
  }
  LayerNormLoop loop{};
  std::unique_ptr<float[]> scratch;
};

}  // namespace

void CpuLoops::layer_norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t,
                                  const Tensor& y) const {
  LayerNorm norm(args, x, t);
  norm.loop.y = float_matrix(y);
  table_->layer_norm_forward(norm.loop);
}

void CpuLoops::layer_norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x,
                                   const NormTensors& t, const Tensor& dx) const {
  LayerNorm norm(args, x, t);
  norm.loop.dy = float_matrix(dy);
  norm.loop.y = float_matrix(dx);
  const std::int64_t channels = x.channels(), chunks = norm.loop.chunks.per_sample;
  const auto partial = loop_views::scratch<double>(chunks * 2 * channels);
  norm.loop.partial = partial.get();
  table_->layer_norm_backward(norm.loop);
  for (std::int64_t c = 0; c < channels; ++c) {
    double shift = 0, scale = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      shift += partial[chunk * 2 * channels + c];
      scale += partial[(chunk * 2 + 1) * channels + c];
    }
    t.dshift.data<float>()[c] += static_cast<float>(shift);
    t.dscale.data<float>()[c] += static_cast<float>(scale);
  }
}

}  // namespace tandem
