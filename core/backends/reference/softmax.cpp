// Softmax over channels, in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backends/reference/reference_impl.h"

namespace tandem {

std::vector<double> log_softmax(const ReferenceMatrix& x, std::int64_t row, std::int64_t channels) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < channels; ++c) largest = std::max(largest, x(row, c));
  for (std::int64_t c = 0; c < channels; ++c) sum += std::exp(x(row, c) - largest);
  std::vector<double> result;
  for (std::int64_t c = 0; c < channels; ++c) result.push_back(x(row, c) - largest - std::log(sum));
  return result;
}

void ReferenceBackend::softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) {
  const ReferenceMatrix mx(x), my(y);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::vector<double> logs = log_softmax(mx, r, x.channels());
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      const double log_p = logs[static_cast<std::size_t>(c)];
      my(r, c) = args.log ? log_p : std::exp(log_p);
    }
  }
}

void ReferenceBackend::softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                                        const Tensor& dx) {
  const ReferenceMatrix mdy(dy), my(y), mdx(dx);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    double dot = 0;
    for (std::int64_t c = 0; c < y.channels(); ++c) dot += args.log ? mdy(r, c) : mdy(r, c) * my(r, c);
    for (std::int64_t c = 0; c < y.channels(); ++c)
      mdx(r, c) = args.log ? mdy(r, c) - std::exp(my(r, c)) * dot : my(r, c) * (mdy(r, c) - dot);
  }
}

}  // namespace tandem
