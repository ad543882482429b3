// Bit tests on 16-bit values: an exponent of all ones is an infinity or NaN, and magnitudes order as
// integers.
#include "core/tensor/finite.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

constexpr std::int64_t kBlockElements = 1 << 16;

bool is_on_host(const Tensor& tensor) { return tensor.device().kind != DeviceKind::kCuda; }

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<double>(to_float(value));
  else
    return static_cast<double>(value);
}

// |x| of the 16-bit formats as an integer that orders like it; NaN is above infinity.
template <class T>
constexpr std::int16_t infinity_bits() {
  return std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
}

template <class T>
bool all_finite(const T* x, std::int64_t n) {
  if constexpr (sizeof(T) == 2) {
    std::int16_t largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
      largest = std::max(largest, static_cast<std::int16_t>(x[i].bits & 0x7fffu));
    return largest < infinity_bits<T>();
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isfinite(x[i])) return false;
    return true;
  }
}

// Calls f(pointer to the first element, as the tensor's C++ type) for a float dtype.
template <class F>
auto with_float_type(const Tensor& tensor, F&& f) {
  switch (tensor.dtype()) {
    case DType::kF16:
      return f(tensor.data<Half>());
    case DType::kBF16:
      return f(tensor.data<BFloat16>());
    case DType::kF64:
      return f(tensor.data<double>());
    default:
      return f(tensor.data<float>());
  }
}

// n, c, spatial indices of channel `c` of row `row`.
std::vector<std::int64_t> logical_index(const Shape& shape, std::int64_t row, std::int64_t c) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {c};
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  index[1] = c;
  for (int axis = shape.rank() - 1; axis >= 2; --axis) {
    index[static_cast<std::size_t>(axis)] = row % shape[axis];
    row /= shape[axis];
  }
  index[0] = row;
  return index;
}

// Largest magnitude of one block; of 16-bit values as bits.
template <class T>
double block_magnitude(const T* x, std::int64_t n) {
  if constexpr (sizeof(T) == 2) {
    std::int16_t largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto magnitude = static_cast<std::int16_t>(x[i].bits & 0x7fffu);
      largest = std::max(largest, magnitude <= infinity_bits<T>() ? magnitude : std::int16_t{0});
    }
    return to_double(T{static_cast<std::uint16_t>(largest)});
  } else {
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::fmax(largest, std::fabs(static_cast<double>(x[i])));
    return largest;
  }
}

}  // namespace

std::optional<NonfiniteElement> first_nonfinite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype()) || tensor.numel() == 0) return std::nullopt;
  if (!is_on_host(tensor)) return first_nonfinite(tensor.to_device(kCpuDevice));
  return with_float_type(tensor, [&](const auto* x) -> std::optional<NonfiniteElement> {
    for (std::int64_t row = 0; row < tensor.rows(); ++row, x += tensor.channel_pitch()) {
      if (all_finite(x, tensor.channels())) continue;
      const std::int64_t c = std::find_if(x, x + tensor.channels(),
                                          [](auto value) { return !std::isfinite(to_double(value)); }) -
                             x;
      return NonfiniteElement{logical_index(tensor.shape(), row, c), to_double(x[c])};
    }
    return std::nullopt;
  });
}

double largest_magnitude(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  if (!is_on_host(tensor)) return largest_magnitude(tensor.to_device(kCpuDevice));
  return with_float_type(tensor, [&](const auto* x) {
    const std::int64_t rows = tensor.rows(), channels = tensor.channels();
    if (!tensor.is_packed()) {
      double largest = 0;
      for (std::int64_t row = 0; row < rows; ++row, x += tensor.channel_pitch())
        largest = std::max(largest, block_magnitude(x, channels));
      return largest;
    }
    const std::int64_t n = tensor.numel();
    std::vector<double> largest(static_cast<std::size_t>((n + kBlockElements - 1) / kBlockElements));
    parallel_blocks(n, kBlockElements, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      largest[static_cast<std::size_t>(block)] = block_magnitude(x + begin, end - begin);
    });
    return *std::ranges::max_element(largest);
  });
}

void make_finite(const Tensor& tensor, double bound) {
  check_internal(is_on_host(tensor) && tensor.is_packed() && !is_16_bit_float(tensor.dtype()),
                 "make_finite of a tensor that is not packed, wide and on the host");
  const auto clean = [&](auto* x) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      if (std::isfinite(x[i])) continue;
      x[i] = std::isnan(x[i])
                 ? 0
                 : std::copysign(static_cast<std::remove_reference_t<decltype(x[i])>>(bound), x[i]);
    }
  };
  tensor.dtype() == DType::kF64 ? clean(tensor.data<double>()) : clean(tensor.data<float>());
}

double value_at(const Tensor& tensor, const std::vector<std::int64_t>& index) {
  check_internal(static_cast<int>(index.size()) == tensor.shape().rank(), "an index of another rank");
  if (!is_on_host(tensor)) return value_at(tensor.to_device(kCpuDevice), index);
  const std::int64_t c = index.empty() ? 0 : index[index.size() == 1 ? 0 : 1];
  std::int64_t row = index.size() < 2 ? 0 : index[0];
  for (std::size_t axis = 2; axis < index.size(); ++axis)
    row = row * tensor.shape()[static_cast<int>(axis)] + index[axis];
  return with_float_type(tensor,
                         [&](const auto* x) { return to_double(x[row * tensor.channel_pitch() + c]); });
}

}  // namespace tandem
