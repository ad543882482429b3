// Normalisation of any scope with its activation.
#include <cmath>

#include "core/backends/reference/reference_impl.h"

namespace tandem {
namespace {

// Elements that share statistics: rows [first_row, end_row) of channels [first_channel, end_channel).
struct NormGroup {
  std::int64_t run, group, first_row, end_row, first_channel, end_channel;

  double count() const { return static_cast<double>((end_row - first_row) * (end_channel - first_channel)); }
  template <class Body>
  void visit(const Body& body) const {
    for (std::int64_t r = first_row; r < end_row; ++r)
      for (std::int64_t c = first_channel; c < end_channel; ++c) body(r, c);
  }
};

// Calls body(group) for all groups of `mean`'s shape.
template <class Body>
void for_groups(const Tensor& x, const Tensor& mean, const Body& body) {
  const std::int64_t runs = mean.shape()[0], groups = mean.shape()[1];
  const std::int64_t rows = x.rows() / runs, channels = x.channels() / groups;
  for (std::int64_t run = 0; run < runs; ++run)
    for (std::int64_t group = 0; group < groups; ++group)
      body(NormGroup{run, group, run * rows, (run + 1) * rows, group * channels, (group + 1) * channels});
}

}  // namespace

void ReferenceBackend::norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t,
                                    const Tensor& y) {
  const ReferenceMatrix mx(x), my(y), mean(t.mean), inv_std(t.inv_std);
  const double *scale = t.scale.data<double>(), *shift = t.shift.data<double>();
  for_groups(x, t.mean, [&](const NormGroup& g) {
    double& m = mean(g.run, g.group);
    double variance = 0;
    if (args.fixed) {
      variance = ReferenceMatrix(t.variance)(g.run, g.group);
    } else {
      double sum = 0, squares = 0;
      g.visit([&](std::int64_t r, std::int64_t c) { sum += mx(r, c); });
      m = sum / g.count();
      g.visit([&](std::int64_t r, std::int64_t c) { squares += std::pow(mx(r, c) - m, 2); });
      variance = squares / g.count();
      if (t.variance.defined()) ReferenceMatrix(t.variance)(g.run, g.group) = variance;
    }
    const double factor = inv_std(g.run, g.group) = 1 / std::sqrt(variance + args.eps);
    visit_activation(args.activation, [&]<class F, class>() {
      g.visit([&](std::int64_t r, std::int64_t c) {
        my(r, c) = F::apply((mx(r, c) - m) * factor * scale[c] + shift[c], {.a = args.slope});
      });
    });
  });
}

// With xhat = (x - mean) inv_std, g = dy activation'(xhat scale + shift) and h = g scale:
// dx = inv_std (h - mean(h) - xhat mean(h xhat)), dscale += sum g xhat, dshift += sum g. Fixed statistics
// have no gradient: dx = inv_std h.
void ReferenceBackend::norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x,
                                     const NormTensors& t, const Tensor& dx) {
  const ReferenceMatrix mdy(dy), mx(x), mdx(dx), mean(t.mean), inv_std(t.inv_std);
  const double *scale = t.scale.data<double>(), *shift = t.shift.data<double>();
  for_groups(x, t.mean, [&](const NormGroup& group) {
    const double m = mean(group.run, group.group), factor = inv_std(group.run, group.group);
    double sum = 0, dot = 0;
    visit_activation(args.activation, [&]<class, class G>() {
      group.visit([&](std::int64_t r, std::int64_t c) {
        const double xhat = (mx(r, c) - m) * factor;
        const double g = G::apply(mdy(r, c), xhat * scale[c] + shift[c], {.a = args.slope});
        t.dscale.data<double>()[c] += g * xhat;
        t.dshift.data<double>()[c] += g;
        mdx(r, c) = g * scale[c];
        sum += mdx(r, c);
        dot += mdx(r, c) * xhat;
      });
    });
    if (args.fixed) sum = dot = 0;  // a bad element is no other's concern
    const double count = group.count();
    group.visit([&](std::int64_t r, std::int64_t c) {
      mdx(r, c) = factor * (mdx(r, c) - sum / count - (mx(r, c) - m) * factor * dot / count);
    });
  });
}

}  // namespace tandem
