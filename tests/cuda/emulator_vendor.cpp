// In place of the vendor's libraries: matrix products and convolutions as plain loops in double, each result
// rounded once.
#include <array>

#include "core/backends/cuda/kernels/elements.h"
#include "tests/cuda/emulator.h"

namespace tandem::testing {

using cuda::ConvCall, cuda::ConvPass, cuda::DeviceMatrix, cuda::Status;

namespace {

double read(const DeviceMatrix& m, std::int64_t row, std::int64_t c) {
  return static_cast<double>(cuda::read_as(m.data, m.dtype, row * m.pitch + c));
}

// float with the last bit set where x is not a float: rounding that to 16 bits is rounding x, once.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || !std::isfinite(nearest)) return nearest;
  if ((static_cast<std::uint32_t>(kernels::float_bits(nearest)) & 1u) != 0) return nearest;
  return std::nextafter(nearest, x > static_cast<double>(nearest) ? INFINITY : -INFINITY);
}

void write(const DeviceMatrix& m, std::int64_t row, std::int64_t c, double x) {
  const float value = m.dtype == DType::kF32 ? static_cast<float>(x) : round_to_odd(x);
  cuda::write_as(m.data, m.dtype, row * m.pitch + c, value);
}

std::int64_t row_of(std::int64_t n, const std::int64_t at[3], const std::int64_t size[3]) {
  return ((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2];
}

// Calls visit(row of y, row of x, tap) for the taps of every output voxel that fall inside.
template <class Visit>
void for_each_tap(const ConvCall& g, const Visit& visit) {
  const std::int64_t voxels = g.out[0] * g.out[1] * g.out[2];
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  for (std::int64_t row = 0; row < g.batch * voxels; ++row) {
    const cuda::Voxel o = cuda::voxel_of(row, g.out);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const cuda::Voxel t = cuda::voxel_of(tap, g.kernel);
      std::int64_t in[3];
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        in[a] = o.at[a] * g.stride[a] - g.padding[a] + t.at[a] * g.dilation[a];
        inside = inside && in[a] >= 0 && in[a] < g.in[a];
      }
      if (inside) visit(row, row_of(o.n, in, g.in), tap);
    }
  }
}

// A matrix's elements in double, packed: operands as they are, results as sums.
class Doubles {
 public:
  explicit Doubles(const DeviceMatrix& m, bool zero) : matrix_(m) {
    values_.resize(static_cast<std::size_t>(m.rows * m.channels));
    if (!zero) each([&](std::int64_t row, std::int64_t c, double& value) { value = read(m, row, c); });
  }
  double* row(std::int64_t row) { return values_.data() + row * matrix_.channels; }
  void store() {
    each([&](std::int64_t row, std::int64_t c, double& value) { write(matrix_, row, c, value); });
  }

 private:
  template <class Body>
  void each(const Body& body) {
    for (std::int64_t r = 0; r < matrix_.rows; ++r)
      for (std::int64_t c = 0; c < matrix_.channels; ++c) body(r, c, row(r)[c]);
  }
  DeviceMatrix matrix_;
  std::vector<double> values_;
};

}  // namespace

Status Emulator::gemm(const cuda::GemmCall& call) {
  const std::int64_t inner = call.transpose_a ? call.a.rows : call.a.channels;
  for (std::int64_t i = 0; i < call.c.rows; ++i)
    for (std::int64_t j = 0; j < call.c.channels; ++j) {
      double sum = call.accumulate ? read(call.c, i, j) : 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += (call.transpose_a ? read(call.a, k, i) : read(call.a, i, k)) *
               (call.transpose_b ? read(call.b, j, k) : read(call.b, k, j));
      write(call.c, i, j, sum);
    }
  return Status::kOk;
}

Status Emulator::conv(const ConvCall& call) {
  const bool to_x = call.pass == ConvPass::kBackwardData, to_w = call.pass == ConvPass::kBackwardWeights;
  Doubles x(call.x, to_x), w(call.w, false), y(call.y, call.pass == ConvPass::kForward);
  const std::int64_t group_in = call.in_channels / call.groups, group_out = call.out_channels / call.groups;
  const std::int64_t taps = call.kernel[0] * call.kernel[1] * call.kernel[2];
  if (call.bias != nullptr)
    for (std::int64_t row = 0; row < call.y.rows; ++row)
      for (std::int64_t k = 0; k < call.out_channels; ++k) y.row(row)[k] = static_cast<double>(call.bias[k]);
  for_each_tap(call, [&](std::int64_t y_row, std::int64_t x_row, std::int64_t tap) {
    for (std::int64_t k = 0; k < call.out_channels; ++k) {
      double* const weight = w.row(k * taps + tap);
      double* const in = x.row(x_row) + k / group_out * group_in;
      double& out = y.row(y_row)[k];
      for (std::int64_t c = 0; c < group_in; ++c) {
        if (to_x)
          in[c] += weight[c] * out;
        else if (to_w)
          weight[c] += in[c] * out;
        else
          out += weight[c] * in[c];
      }
    }
  });
  (to_x ? x : to_w ? w : y).store();
  return Status::kOk;
}

}  // namespace tandem::testing
