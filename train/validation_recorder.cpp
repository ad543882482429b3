// From scores and label volumes to records.
#include "train/validation_recorder.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem {
namespace {

double mean_dice(const SegmentationScores::Case& scores) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t c = 1; c < scores.scores.size(); ++c)
    if (const double dice = scores.scores[c].dice; !std::isnan(dice)) {
      sum += dice;
      ++count;
    }
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

// The box of the source's grid; where the case is cut or resampled, its nearest prepared voxels (0 outside).
void read_on_source_grid(const PreparedCase& source, const Index3& begin, const Index3& size,
                         std::span<float> values) {
  if (source.on_source_grid()) return source.read_box(begin, size, values, {});
  std::array<std::vector<std::int64_t>, 3> nearest;
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::int64_t i = 0; i < size[axis]; ++i) {
      const double from = static_cast<double>(source.plan().from[axis]);
      const double place = static_cast<double>(begin[axis] + i - source.crop_begin()[axis]) + 0.5;
      nearest[axis].push_back(
          place < 0 || place > from
              ? -1
              : static_cast<std::int64_t>(place / from * static_cast<double>(source.shape()[axis])));
    }
  std::vector<float> voxel(static_cast<std::size_t>(source.channels()));
  auto out = values.begin();
  for (const std::int64_t z : nearest[0])
    for (const std::int64_t y : nearest[1])
      for (const std::int64_t x : nearest[2]) {
        source.read_box({z, y, x}, {1, 1, 1}, voxel, {});  // beyond the volume: 0
        out = std::copy(voxel.begin(), voxel.end(), out);
      }
}

}  // namespace

ValidationRecorder::ValidationRecorder(std::int64_t step, std::vector<std::string> names,
                                       const std::vector<std::string>& metrics)
    : names_(std::move(names)), metrics_(chosen_metrics(metrics)), record_{.step = step} {}

std::function<void(const ScoredCase&)> ValidationRecorder::visitor() {
  return [this](const ScoredCase& scored) { add(scored); };
}

void ValidationRecorder::add(const ScoredCase& scored) {
  const std::vector<ClassScore>& scores = scored.scores.scores;
  CaseRecord one{.id = scored.scores.id, .mean_dice = mean_dice(scored.scores)};
  for (const MetricRow& row : metrics_) {
    NamedNumbers values;
    for (std::size_t c = 1; c < scores.size(); ++c) values.emplace_back(names_[c], scores[c].*row.value);
    one.metrics.emplace_back(row.name, std::move(values));
  }
  const PreparedCase& source = scored.source;
  const auto read_image = [&source](const Index3& begin, const Index3& size, std::span<float> values) {
    read_on_source_grid(source, begin, size, values);
  };
  one.pictures = draw_case({.shape = scored.labels.shape,
                            .spacing_mm = scored.labels.spacing_mm,
                            .channels = source.channels(),
                            .read_image = read_image,
                            .truth = scored.labels.reference,
                            .prediction = scored.labels.prediction});
  record_.cases.push_back(std::move(one));
  drop_middle_pictures(record_.cases);
}

}  // namespace tandem
