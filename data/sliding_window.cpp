// Windows, weights, and the run of models over windows.
#include "data/sliding_window.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "data/line_sums.h"
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

// The whole prediction: what it reads, and where the answers go.
class Prediction {
 public:
  Prediction(const WindowSource& source, const WindowOptions& options, std::span<const PatchModel> models,
             const LineSink& sink, const SliceSink& after_slice)
      : source_(source),
        options_(options),
        models_(models),
        sink_(sink),
        after_slice_(after_slice),
        plan_(planned(source.shape, options, static_cast<bool>(after_slice))),
        sums_(plan_, source.classes, static_cast<std::int64_t>(models.size()),
              window_weights(options.patch, options.blend)) {}

  void run() {
    for (std::int64_t first = 0; first < plan_.count(); first += plan_.batch_size)
      run_batch(first, std::min(plan_.count(), first + plan_.batch_size));
  }

 private:
  static WindowPlan planned(const Index3& shape, const WindowOptions& options, bool by_slice) {
    WindowPlan plan = plan_windows(shape, options);
    plan.by_slice = by_slice;
    return plan;
  }

  void run_batch(std::int64_t first, std::int64_t end) {
    const Index3& patch = plan_.patch;
    const Tensor image({end - first, source_.channels, patch[0], patch[1], patch[2]}, DType::kF32, kCpuDevice,
                       MemoryCategory::kData);
    const std::span<float> values(image.data<float>(), as_size(image.numel()));
    const std::size_t pitch = values.size() / as_size(end - first);
    for (std::int64_t w = first; w < end; ++w) {
      source_.read(plan_.begin_of(w), patch, values.subspan(as_size(w - first) * pitch, pitch));
      sums_.begin(plan_.begin_of(w));
    }
    const unsigned copies = 1u << options_.mirror_axes.size();
    for (unsigned copy = 0; copy < copies; ++copy) add_copy(image, copy, first);
    for (std::int64_t w = first; w < end; ++w) sums_.finish(w, sink_, after_slice_);
  }

  // The answers of all models to one mirrored copy of the windows from `first` on.
  void add_copy(const Tensor& image, unsigned copy, std::int64_t first) {
    const Tensor turned = copy == 0 ? image : image.clone(MemoryCategory::kData);
    const std::span<float> values(turned.data<float>(), as_size(turned.numel()));
    const std::int64_t samples = image.shape().batch();
    const std::size_t pitch = values.size() / as_size(samples);
    unsigned mirrored = 0;
    for (std::size_t a = 0; a < options_.mirror_axes.size(); ++a) {
      if ((copy >> a & 1u) == 0) continue;
      mirrored |= 1u << options_.mirror_axes[a];
      for (std::size_t n = 0; n < as_size(samples); ++n)
        mirror_values(values.subspan(n * pitch, pitch), plan_.patch, source_.channels,
                      options_.mirror_axes[a]);
    }
    const float share = 1.0f / static_cast<float>(1u << options_.mirror_axes.size());
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const Tensor logits = models_[m](turned);
      check_logits(image, logits);
      for (std::int64_t n = 0; n < samples; ++n)
        sums_.add({.begin = plan_.begin_of(first + n),
                   .logits = &logits,
                   .sample = n,
                   .model = static_cast<std::int64_t>(m),
                   .mirrored = mirrored,
                   .share = share});
    }
  }

  void check_logits(const Tensor& image, const Tensor& logits) const {
    if (logits.shape().rank() == 5 && logits.shape() == image.shape().with(1, source_.classes) &&
        logits.is_packed())
      return;
    fail(ErrorKind::kShape,
         "[predict] logits: got {} for an image {}, expected {} classes of the same batch and "
         "patch, packed",
         to_string(logits), to_string(image), source_.classes);
  }

  const WindowSource& source_;
  const WindowOptions& options_;
  std::span<const PatchModel> models_;
  const LineSink& sink_;
  const SliceSink& after_slice_;
  WindowPlan plan_;
  LineSums sums_;
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

WindowPlan plan_windows(const Index3& shape, const WindowOptions& options) {
  WindowPlan plan{.shape = shape, .patch = options.patch, .batch_size = options.batch_size};
  for (std::size_t a = 0; a < 3; ++a) {
    plan.starts[a] = window_starts(shape[a], options.patch[a], options.overlap);
    if (shape[a] < options.patch[a]) plan.starts[a] = {-((options.patch[a] - shape[a]) / 2)};
  }
  return plan;
}

std::int64_t WindowPlan::count() const {
  return static_cast<std::int64_t>(starts[0].size() * starts[1].size() * starts[2].size());
}

Index3 WindowPlan::begin_of(std::int64_t window) const {
  const auto ny = static_cast<std::int64_t>(starts[1].size()),
             nx = static_cast<std::int64_t>(starts[2].size());
  return {starts[0][as_size(window / nx / ny)], starts[1][as_size(window / nx % ny)],
          starts[2][as_size(window % nx)]};
}

std::int64_t window_sum_bytes(const WindowPlan& plan, std::int64_t classes, std::int64_t models) {
  return LineSums::bytes(plan, classes * models);
}

void sliding_window(const WindowSource& source, const WindowOptions& options,
                    std::span<const PatchModel> models, const LineSink& sink, const SliceSink& after_slice) {
  Prediction(source, options, models, sink, after_slice).run();
}

}  // namespace tandem
