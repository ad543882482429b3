// Whole cases through the sliding window, and the step from logits to labels.
#include "data/prediction.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/base/error.h"
#include "data/case_cache.h"
#include "data/case_list.h"
#include "data/source_lines.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

template <class Options>
WindowOptions shared_options(const Options& options, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  WindowOptions window{.patch = patch.size, .overlap = options.overlap, .blend = options.blend};
  if (options.mirror_tta.on) window.mirror_axes = axes_of(options.mirror_tta.axes.value_or(augment.mirror));
  return window;
}

// Mean of the models' softmax over K classes: scores [models * K] -> mean [K]; `one` is room for K values.
void mean_softmax(std::span<const float> scores, std::span<float> mean, std::span<float> one) {
  const std::size_t classes = mean.size(), models = scores.size() / classes;
  std::fill(mean.begin(), mean.end(), 0.0f);
  for (std::size_t m = 0; m < models; ++m) {
    const std::span<const float> logits = scores.subspan(m * classes, classes);
    const float largest = *std::max_element(logits.begin(), logits.end());
    float sum = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      one[k] = logits[k] == largest ? 1.0f : std::exp(logits[k] - largest);  // an infinity wins without NaN
      sum += one[k];
    }
    for (std::size_t k = 0; k < classes; ++k) mean[k] += one[k] / (sum * static_cast<float>(models));
  }
}

// Mean of the models' sigmoid of each of R independent outputs: scores [models * R] -> mean [R].
void mean_sigmoid(std::span<const float> scores, std::span<float> mean) {
  const auto models = static_cast<float>(scores.size() / mean.size());
  std::fill(mean.begin(), mean.end(), 0.0f);
  for (std::size_t i = 0; i < scores.size(); ++i)
    mean[i % mean.size()] += 1 / (1 + std::exp(-scores[i])) / models;
}

// Turns finished lines into the result. Lines come from several threads; each voxel is written once.
class ResultBuilder {
 public:
  ResultBuilder(const Geometry& geometry, std::int64_t models, const PredictionRequest& request)
      : shape_(geometry.shape()),
        classes_(as_size(request.classes)),
        softmax_(models > 1 || request.probabilities),
        regions_(request.region_classes) {
    result_.labels.resize(as_size(voxel_count(shape_)));
    if (!request.probabilities) return;
    result_.probabilities = Volume{geometry, request.classes, {}};
    result_.probabilities->values.resize(as_size(voxel_count(shape_) * request.classes));
  }

  void take(std::int64_t z, std::int64_t y, std::span<const float> logits) {
    const auto bad = std::count_if(logits.begin(), logits.end(), [](float v) { return std::isnan(v); });
    if (bad > 0) {
      bad_ += bad;
      return;
    }
    const std::size_t first = as_size((z * shape_[1] + y) * shape_[2]);
    const std::size_t channels = logits.size() / as_size(shape_[2]);
    std::vector<float> mean(classes_), room(classes_);
    for (std::size_t x = 0; x < as_size(shape_[2]); ++x) {
      std::span<const float> scores = logits.subspan(x * channels, channels);
      if (!regions_.empty()) {
        mean_sigmoid(scores, mean);
        for (std::size_t r = 0; r < classes_; ++r)
          if (mean[r] > 0.5f) result_.labels[first + x] = regions_[r];
      } else if (softmax_) {
        mean_softmax(scores, mean, room);
        scores = mean;
      }
      if (regions_.empty())
        result_.labels[first + x] =
            static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
      if (!result_.probabilities) continue;
      for (std::size_t k = 0; k < classes_; ++k)
        result_.probabilities->values[k * result_.labels.size() + first + x] = mean[k];
    }
  }

  CasePrediction finish(std::int64_t logits) {
    if (bad_ > 0)
      throw Error(ErrorKind::kNumeric,
                  fmt::format("[predict] the network's output is not a number at {} of {} logits",
                              bad_.load(), logits),
                  "The model has diverged, or the image is not what it was trained on (data.normalize).");
    return std::move(result_);
  }

 private:
  Index3 shape_;
  std::size_t classes_;
  bool softmax_;
  std::vector<std::int32_t> regions_;
  std::atomic<std::int64_t> bad_{0};
  CasePrediction result_;
};

// Logits of voxels that data.crop_nonzero cut away: background beyond doubt, all other outputs as unlikely.
constexpr float kSure = 30;

std::vector<float> logits_outside(const PredictionRequest& request, std::int64_t models) {
  std::vector<float> outside(as_size(request.classes * models), -kSure);
  if (request.region_classes.empty())
    for (std::size_t i = 0; i < outside.size(); i += as_size(request.classes)) outside[i] = kSure;
  return outside;
}

}  // namespace

WindowOptions window_options(const PredictOptions& predict, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  WindowOptions window = shared_options(predict, patch, augment);
  window.batch_size = predict.batch_size;
  return window;
}

WindowOptions window_options(const ValidateOptions& validate, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  return shared_options(validate, patch, augment);
}

PreparedCase prepare_whole_case(std::unique_ptr<VoxelSource> source, const DataOptions& data) {
  const bool fits = data.cache == CacheKind::kRam &&
                    PreparedCase::memory_bytes(source->info(), data) <= memory_for_cases(data);
  return PreparedCase(std::move(source), data, fits);
}

PredictionRequest prediction_request(const LabelMap& labels) {
  PredictionRequest request{.classes = labels.regions() > 0 ? labels.regions() : labels.classes()};
  for (std::int64_t r = 0; r < labels.regions(); ++r)
    request.region_classes.push_back(labels.region_class(r));
  return request;
}

CasePrediction predict_case(const PreparedCase& source, const WindowOptions& options,
                            std::span<const PatchModel> models, const PredictionRequest& request) {
  const auto count = static_cast<std::int64_t>(models.size());
  ResultBuilder result(source.info().geometry, count, request);
  const WindowSource volume{.shape = source.shape(),
                            .channels = source.channels(),
                            .classes = request.classes,
                            .read = [&](const Index3& begin, const Index3& size, std::span<float> values) {
                              source.read_box(begin, size, values, {});
                            }};
  const LineSink take = [&](std::int64_t z, std::int64_t y, std::span<const float> logits) {
    result.take(z, y, logits);
  };
  if (source.on_source_grid()) {
    sliding_window(volume, options, models, take);
  } else {
    SourceLines lines(source.placement(), logits_outside(request, count), take);
    sliding_window(
        volume, options, models,
        [&](std::int64_t z, std::int64_t y, std::span<const float> logits) { lines.add(z, y, logits); },
        [&](std::int64_t z) { lines.finish_slice(z); });
  }
  return result.finish(voxel_count(source.info().geometry.shape()) * request.classes * count);
}

PredictionBytes prediction_bytes(const GridPlacement& placement, const WindowOptions& options,
                                 std::int64_t models, const PredictionRequest& request) {
  WindowPlan plan = plan_windows(placement.plan.to, options);
  plan.by_slice = !placement.is_source();
  PredictionBytes bytes{.sums = window_sum_bytes(plan, request.classes, models)};
  if (plan.by_slice) bytes.sums += SourceLines::bytes(placement, request.classes * models);
  bytes.result = voxel_count(placement.source) *
                 (static_cast<std::int64_t>(sizeof(std::int32_t)) +
                  (request.probabilities ? request.classes * static_cast<std::int64_t>(sizeof(float)) : 0));
  return bytes;
}

std::vector<std::int32_t> reference_labels(const PreparedCase& source) {
  if (!source.has_labels())
    throw Error(ErrorKind::kData,
                fmt::format("[data] {}: got a case without labels, expected labels to compare with",
                            source.info().file),
                how_to_label(source.info().file));
  return source.source_labels();
}

}  // namespace tandem
