// Maps over the functors of core/kernels, and row sums.
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

}  // namespace tandem
