// Resize, dropout and moved boxes.
#include "core/backends/reference/reference_impl.h"
#include "core/base/philox.h"

namespace tandem {

void ReferenceBackend::move(const MoveArgs& args, const Tensor& x, const Tensor& y) {
  std::int64_t count = 1;
  for (int i = 0; i < args.rank; ++i) count *= args.size[static_cast<std::size_t>(i)];
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t from = args.from_offset, to = args.to_offset, rest = n;
    for (int i = args.rank; i-- > 0;) {
      const auto a = static_cast<std::size_t>(i);
      from += rest % args.size[a] * args.from_stride[a];
      to += rest % args.size[a] * args.to_stride[a];
      rest /= args.size[a];
    }
    y.data<double>()[to] = x.data<double>()[from];
  }
}

// Scatter: every output voxel gives to (adjoint: of) its taps.
void ReferenceBackend::resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) {
  const ReferenceMatrix mx(x), my(y);
  const Tensor &large = args.adjoint ? y : x, &small = args.adjoint ? x : y;  // input and output of the op
  const auto in = large.shape().spatial(), out = small.shape().spatial();
  y.set_zero();
  for (std::int64_t r = 0; r < small.rows(); ++r) {
    const std::array<std::int64_t, 3> o{r / out[2] / out[1] % out[0], r / out[2] % out[1], r % out[2]};
    for (int corner = 0; corner < 8; ++corner) {
      double weight = 1;
      std::int64_t row = r / (out[0] * out[1] * out[2]);
      for (std::size_t a = 0; a < 3; ++a) {
        const ResizeAxis& axis = (*args.axes)[a];
        const auto at = static_cast<std::size_t>(o[a]);
        const bool high = (corner >> a & 1) != 0;
        const double share = static_cast<double>(axis.weight[at]);
        weight *= high ? share : 1 - share;
        row = row * in[a] + (high ? axis.high[at] : axis.low[at]);
      }
      if (weight == 0) continue;
      for (std::int64_t c = 0; c < x.channels(); ++c)
        (args.adjoint ? my(row, c) : my(r, c)) += weight * (args.adjoint ? mx(r, c) : mx(row, c));
    }
  }
}

void ReferenceBackend::dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::uint32_t words[4] = {static_cast<std::uint32_t>(i / 4), args.counter[1], args.counter[2],
                              args.counter[3]};
    philox4x32_words(args.key[0], args.key[1], words);
    y.data<double>()[i] = words[i % 4] >= args.threshold ? x.data<double>()[i] * args.scale : 0.0;
  }
}

}  // namespace tandem
