// Maps over the functors of core/kernels, row sums and normalisation.
#include <cmath>

#include "core/backends/reference/reference_impl.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// An input of map: the output's shape, one value per channel, or one value.
class MapInput {
 public:
  MapInput(const Tensor& tensor, const Tensor& out) : matrix_(tensor) {
    const bool full = tensor.shape() == out.shape();
    rows_ = full;
    columns_ = full || (tensor.shape().rank() == 1 && tensor.numel() == out.channels());
    check_internal(columns_ || tensor.numel() == 1, "a map input that neither fits nor broadcasts");
  }
  double operator()(std::int64_t row, std::int64_t c) const {
    return matrix_(rows_ ? row : 0, columns_ ? c : 0);
  }

 private:
  ReferenceMatrix matrix_;
  bool rows_, columns_;
};

// d activation(z) / dz; at 0 the value of the negative side.
double activation_slope(const NormArgs& args, double z) {
  if (args.activation == Activation::kNone || !(z <= 0)) return 1;
  return args.activation == Activation::kRelu ? 0.0 : args.slope;
}

double activate(const NormArgs& args, double z) {
  if (args.activation == Activation::kRelu) return kernels::Relu::apply(z, {});
  if (args.activation == Activation::kLeakyRelu) return kernels::LeakyRelu::apply(z, {.a = args.slope});
  return z;
}

}  // namespace

void ReferenceBackend::map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) {
  const ReferenceMatrix result(out);
  visit_map_kernel(args.kernel, [&]<class Functor>() {
    check_internal(inputs.size() == Functor::kArity, "a map with another number of inputs than its functor");
    std::vector<MapInput> values;
    for (const Tensor& input : inputs) values.emplace_back(input, out);
    for (std::int64_t r = 0; r < out.rows(); ++r)
      for (std::int64_t c = 0; c < out.channels(); ++c) {
        double value = 0;
        if constexpr (Functor::kArity == 1)
          value = Functor::apply(values[0](r, c), args.params);
        else if constexpr (Functor::kArity == 2)
          value = Functor::apply(values[0](r, c), values[1](r, c), args.params);
        else
          value = Functor::apply(values[0](r, c), values[1](r, c), values[2](r, c), args.params);
        result(r, c) = args.accumulate ? result(r, c) + value : value;
      }
  });
}

void ReferenceBackend::reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) {
  const ReferenceMatrix mx(x);
  double* sums = out.data<double>();
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.channels(); ++c)
      sums[c] += mx(r, c) * (y.defined() ? ReferenceMatrix(y)(r, c) : 1.0);
}

void ReferenceBackend::norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t,
                                    const Tensor& y) {
  const ReferenceMatrix mx(x), my(y), mean(t.mean), inv_std(t.inv_std);
  const std::int64_t voxels = x.shape().spatial_numel();
  for (std::int64_t n = 0; n < x.shape().batch(); ++n)
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t v = 0; v < voxels; ++v) sum += mx(n * voxels + v, c);
      const double m = sum / static_cast<double>(voxels);
      for (std::int64_t v = 0; v < voxels; ++v) squares += std::pow(mx(n * voxels + v, c) - m, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(voxels) + args.eps);
      mean(n, c) = m;
      inv_std(n, c) = scale;
      for (std::int64_t v = 0; v < voxels; ++v) {
        const std::int64_t r = n * voxels + v;
        my(r, c) =
            activate(args, (mx(r, c) - m) * scale * t.scale.data<double>()[c] + t.shift.data<double>()[c]);
      }
    }
}

// With xhat = (x - mean) inv_std and g = dy activation'(xhat scale + shift):
// dx = scale inv_std (g - mean(g) - xhat mean(g xhat)), dscale += sum g xhat, dshift += sum g.
void ReferenceBackend::norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x,
                                     const NormTensors& t, const Tensor& dx) {
  const ReferenceMatrix mdy(dy), mx(x), mdx(dx), mean(t.mean), inv_std(t.inv_std);
  const std::int64_t voxels = x.shape().spatial_numel();
  const auto count = static_cast<double>(voxels);
  for (std::int64_t n = 0; n < x.shape().batch(); ++n)
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      const double scale = t.scale.data<double>()[c], shift = t.shift.data<double>()[c];
      const auto xhat = [&](std::int64_t r) { return (mx(r, c) - mean(n, c)) * inv_std(n, c); };
      const auto g = [&](std::int64_t r) {
        return mdy(r, c) * activation_slope(args, xhat(r) * scale + shift);
      };
      double sum = 0, dot = 0;
      for (std::int64_t r = n * voxels; r < (n + 1) * voxels; ++r) {
        sum += g(r);
        dot += g(r) * xhat(r);
      }
      t.dscale.data<double>()[c] += dot;
      t.dshift.data<double>()[c] += sum;
      for (std::int64_t r = n * voxels; r < (n + 1) * voxels; ++r)
        mdx(r, c) = scale * inv_std(n, c) * (g(r) - sum / count - xhat(r) * dot / count);
    }
}

}  // namespace tandem
