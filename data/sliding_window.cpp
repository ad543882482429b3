// Windows, weights and the accumulation of logits.
#include "data/sliding_window.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/parallel.h"
#include "data/mirror.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<double> gaussian_line(std::int64_t size) {
  const double sigma = static_cast<double>(size) / 8;
  const auto radius = static_cast<std::int64_t>(4 * sigma + 0.5);
  std::vector<double> line;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t d = std::abs(i - size / 2);
    const double x = static_cast<double>(d) / sigma;
    line.push_back(d <= radius ? std::exp(-0.5 * x * x) : 0);
  }
  return line;
}

template <class T>
void add_as_float(const Tensor& tensor, std::span<float> sum) {
  const T* values = tensor.data<T>();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      sum[i] += static_cast<float>(values[i]);
    else
      sum[i] += to_float(values[i]);
  }
}

void add_logits(const Tensor& logits, std::span<float> sum) {
  switch (logits.dtype()) {
    case DType::kF32:
      return add_as_float<float>(logits, sum);
    case DType::kF64:
      return add_as_float<double>(logits, sum);
    case DType::kF16:
      return add_as_float<Half>(logits, sum);
    case DType::kBF16:
      return add_as_float<BFloat16>(logits, sum);
    default:
      fail(ErrorKind::kShape, "[predict] logits: got {}, expected a floating dtype", to_string(logits));
  }
}

// The whole prediction: where it reads, what it adds up.
class Predictor {
 public:
  Predictor(const Index3& shape, std::int64_t channels, const BoxReader& read, const WindowOptions& options,
            const PatchModel& model)
      : shape_(shape),
        channels_(channels),
        read_(read),
        options_(options),
        model_(model),
        weights_(window_weights(options.patch, options.blend)),
        weight_sum_(as_size(voxel_count(shape))) {}

  LogitVolume run() {
    const std::vector<Index3> windows = all_windows();
    const auto step = as_size(options_.batch_size);
    for (std::size_t first = 0; first < windows.size(); first += step)
      add_windows(std::span(windows).subspan(first, std::min(step, windows.size() - first)));
    const std::int64_t classes = result_.classes;
    parallel_for(voxel_count(shape_), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        for (std::int64_t k = 0; k < classes; ++k)
          result_.values[as_size(v * classes + k)] /= weight_sum_[as_size(v)];
    });
    return std::move(result_);
  }

 private:
  std::vector<Index3> all_windows() const {
    std::array<std::vector<std::int64_t>, 3> starts;
    for (std::size_t a = 0; a < 3; ++a) {
      starts[a] = window_starts(shape_[a], options_.patch[a], options_.overlap);
      if (shape_[a] < options_.patch[a]) starts[a] = {-((options_.patch[a] - shape_[a]) / 2)};
    }
    std::vector<Index3> windows;
    for (const std::int64_t z : starts[0])
      for (const std::int64_t y : starts[1])
        for (const std::int64_t x : starts[2]) windows.push_back({z, y, x});
    return windows;
  }

  void add_windows(std::span<const Index3> windows) {
    const Index3& patch = options_.patch;
    const auto n = static_cast<std::int64_t>(windows.size());
    Tensor image({n, channels_, patch[0], patch[1], patch[2]}, DType::kF32, kCpuDevice,
                 MemoryCategory::kData);
    const std::span<float> values(image.data<float>(), as_size(image.numel()));
    const std::size_t pitch = values.size() / windows.size();
    for (std::size_t i = 0; i < windows.size(); ++i)
      read_(windows[i], patch, values.subspan(i * pitch, pitch));
    const std::vector<float> logits = mirrored_mean(image);
    for (std::size_t i = 0; i < windows.size(); ++i)
      add_window(windows[i], std::span(logits).subspan(i * logits.size() / windows.size(),
                                                       logits.size() / windows.size()));
  }

  // Mean of the logits [N, D, H, W, K] over all subsets of the mirror axes.
  std::vector<float> mirrored_mean(const Tensor& image) {
    const auto axes = options_.mirror_axes.size();
    const unsigned subsets = 1u << axes;
    std::vector<float> sum;
    for (unsigned subset = 0; subset < subsets; ++subset) {
      const Tensor turned = subset == 0 ? image : image.clone(MemoryCategory::kData);
      mirror_subset(std::span(turned.data<float>(), as_size(turned.numel())), image.shape().batch(), subset);
      const Tensor logits = model_(turned);
      check_logits(image, logits);
      std::vector<float> part(as_size(logits.numel()), 0.0f);
      add_logits(logits, part);
      mirror_subset(part, image.shape().batch(), subset);
      if (sum.empty()) sum.assign(part.size(), 0.0f);
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    for (float& value : sum) value /= static_cast<float>(subsets);
    return sum;
  }

  void mirror_subset(std::span<float> values, std::int64_t samples, unsigned subset) const {
    const auto pitch = values.size() / as_size(samples);
    const std::int64_t depth = static_cast<std::int64_t>(pitch) / voxel_count(options_.patch);
    for (std::size_t i = 0; i < as_size(samples); ++i)
      for (std::size_t a = 0; a < options_.mirror_axes.size(); ++a)
        if ((subset >> a & 1u) != 0)
          mirror_values(values.subspan(i * pitch, pitch), options_.patch, depth, options_.mirror_axes[a]);
  }

  void check_logits(const Tensor& image, const Tensor& logits) {
    const Shape& in = image.shape();
    const std::int64_t classes = logits.shape().rank() == 5 ? logits.shape()[1] : 0;
    if (classes < 1 || logits.shape() != in.with(1, classes) || !logits.is_packed() ||
        (result_.classes != 0 && classes != result_.classes))
      fail(ErrorKind::kShape,
           "[predict] logits: got {} for an image {}, expected the same batch and patch, packed, with one "
           "class count",
           to_string(logits), to_string(image));
    if (result_.classes != 0) return;
    result_.shape = shape_;
    result_.classes = classes;
    result_.values.assign(as_size(voxel_count(shape_) * classes), 0.0f);
  }

  void add_window(const Index3& begin, std::span<const float> logits) {
    const Index3& patch = options_.patch;
    const std::int64_t classes = result_.classes;
    const std::int64_t x0 = std::max<std::int64_t>(0, -begin[2]),
                       x1 = std::min(patch[2], shape_[2] - begin[2]);
    parallel_for(patch[0], 1, [&](std::int64_t z_begin, std::int64_t z_end) {
      for (std::int64_t z = z_begin; z < z_end; ++z) {
        if (z + begin[0] < 0 || z + begin[0] >= shape_[0]) continue;
        for (std::int64_t y = 0; y < patch[1]; ++y) {
          if (y + begin[1] < 0 || y + begin[1] >= shape_[1]) continue;
          const std::int64_t from = (z * patch[1] + y) * patch[2];
          const std::int64_t to = ((z + begin[0]) * shape_[1] + y + begin[1]) * shape_[2] + begin[2];
          for (std::int64_t x = x0; x < x1; ++x) {
            const float weight = weights_[as_size(from + x)];
            weight_sum_[as_size(to + x)] += weight;
            const float* source = logits.data() + (from + x) * classes;
            float* target = result_.values.data() + (to + x) * classes;
            for (std::int64_t k = 0; k < classes; ++k) target[k] += weight * source[k];
          }
        }
      }
    });
  }

  Index3 shape_;
  std::int64_t channels_;
  const BoxReader& read_;
  const WindowOptions& options_;
  const PatchModel& model_;
  std::vector<float> weights_, weight_sum_;
  LogitVolume result_;
};

}  // namespace

std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t patch, double overlap) {
  check_internal(size >= 1 && patch >= 1 && overlap >= 0 && overlap < 1,
                 "window_starts: sizes or overlap out of range");
  if (size <= patch) return {0};
  const auto room = static_cast<double>(size - patch);
  const auto n =
      static_cast<std::int64_t>(std::ceil(room / (static_cast<double>(patch) * (1 - overlap)))) + 1;
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < n; ++i)
    starts.push_back(static_cast<std::int64_t>(
        std::nearbyint(static_cast<double>(i) * (room / static_cast<double>(n - 1)))));
  return starts;
}

std::vector<float> window_weights(const Index3& patch, BlendKind blend) {
  std::vector<float> weights(as_size(voxel_count(patch)), 1.0f);
  if (blend == BlendKind::kConstant) return weights;
  const std::vector<double> z = gaussian_line(patch[0]), y = gaussian_line(patch[1]),
                            x = gaussian_line(patch[2]);
  std::size_t i = 0;
  float smallest = 1;
  for (const double wz : z)
    for (const double wy : y)
      for (const double wx : x) {
        weights[i] = static_cast<float>(wz * wy * wx);
        if (weights[i] > 0) smallest = std::min(smallest, weights[i]);
        ++i;
      }
  for (float& weight : weights) weight = std::max(weight, smallest);
  return weights;
}

std::vector<std::int32_t> LogitVolume::labels() const {
  const auto bad = std::count_if(values.begin(), values.end(), [](float x) { return std::isnan(x); });
  if (bad > 0)
    throw Error(
        ErrorKind::kNumeric,
        fmt::format("[predict] the network's output is not a number at {} of {} logits", bad, values.size()),
        "The model has diverged, or the image is not what it was trained on (data.normalize).");
  std::vector<std::int32_t> result(as_size(voxel_count(shape)));
  for (std::size_t v = 0; v < result.size(); ++v) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(v) * classes;
    result[v] = static_cast<std::int32_t>(std::max_element(first, first + classes) - first);
  }
  return result;
}

LogitVolume sliding_window(const Index3& shape, std::int64_t channels, const BoxReader& read,
                           const WindowOptions& options, const PatchModel& model) {
  return Predictor(shape, channels, read, options, model).run();
}

}  // namespace tandem
