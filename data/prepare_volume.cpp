// PreparedCase with data.spacing or data.crop_nonzero: cut, normalise, resample, as nnU-Net does, in this
// order.
#include <algorithm>

#include "core/base/error.h"
#include "data/prepared_case.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

void PreparedCase::prepare(const DataOptions& options) {
  in_memory_ = true;
  if (options.crop_nonzero) find_nonzero_box();
  const Spacing spacing = info_.geometry.spacing_mm();
  if (options.spacing) {
    plan_.to = resampled_shape(plan_.from, spacing, *options.spacing);
    plan_.separate = separate_axis(spacing, *options.spacing);
  } else {
    plan_.to = plan_.from;
  }
  prepare_image(options);
  if (has_labels()) prepare_labels();
}

// The box of voxels with a value other than 0 in any channel; the whole case where there is none. Holes need
// no filling for that. Names the first voxel that is not finite in the coordinates of the source.
void PreparedCase::find_nonzero_box() {
  const Index3 whole = info_.geometry.shape();
  Index3 low = whole, high{-1, -1, -1};
  std::vector<float> planes(as_size(channels() * whole[1] * whole[2]));
  for (std::int64_t z = 0; z < whole[0]; ++z) {
    source_->read_image({z, 0, 0}, {1, whole[1], whole[2]}, planes);
    for (std::size_t i = 0; i < planes.size(); ++i) {
      if (planes[i] == 0) continue;
      const auto in_plane = static_cast<std::int64_t>(i) % (whole[1] * whole[2]);
      const Index3 at{z, in_plane / whole[2], in_plane % whole[2]};
      for (std::size_t a = 0; a < 3; ++a)
        low[a] = std::min(low[a], at[a]), high[a] = std::max(high[a], at[a]);
    }
    ChannelStatistics finite({.kind = NormalizeKind::kNone});
    for (std::int64_t c = 0; c < channels(); ++c)
      finite.add_slice(
          std::span(planes).subspan(as_size(c * whole[1] * whole[2]), as_size(whole[1] * whole[2])), z,
          whole[2], info_.file);
  }
  if (high[0] < 0) return;
  crop_begin_ = low;
  for (std::size_t a = 0; a < 3; ++a) plan_.from[a] = high[a] - low[a] + 1;
}

void PreparedCase::prepare_image(const DataOptions& options) {
  const Index3& size = plan_.from;
  const std::int64_t voxels = voxel_count(size), slice = size[1] * size[2];
  std::vector<float> planes(as_size(voxels * channels()));
  source_->read_image(crop_begin_, size, planes);
  image_.resize(as_size(voxel_count(plan_.to) * channels()));
  for (std::int64_t c = 0; c < channels(); ++c) {
    const std::span<float> plane = std::span(planes).subspan(as_size(c * voxels), as_size(voxels));
    ChannelStatistics statistics(normalize_options_of(options.normalize, c));
    for (std::int64_t z = 0; z < size[0]; ++z)
      statistics.add_slice(plane.subspan(as_size(z * slice), as_size(slice)), z, size[2], info_.file);
    scales_.push_back(statistics.scale());
    for (float& value : plane) value = scales_.back()(value);
    const std::vector<float> resampled = resample_values(plane, plan_, 1, 3);
    for (std::size_t i = 0; i < resampled.size(); ++i)
      image_[i * as_size(channels()) + as_size(c)] = resampled[i];
  }
  if (!has_weights()) return;
  std::vector<float> weights(as_size(voxels));
  source_->read_weights(crop_begin_, size, weights);
  weights_ = resample_values(weights, plan_, 1, 1);
}

void PreparedCase::prepare_labels() {
  std::vector<std::int32_t> values(as_size(voxel_count(plan_.from)));
  std::vector<std::uint8_t> classes(values.size());
  UnknownLabels unknown;
  source_->read_labels(crop_begin_, plan_.from, values);
  labels_.apply(values, classes, unknown);
  LabelMap::expect_none(unknown, info_.file);
  classes_ = resample_classes(classes, plan_);
  foreground_ = ClassIndex(labels_.classes(), shape(), labels_.ignores());
  const std::int64_t rows = shape()[0] * shape()[1];
  for (std::int64_t row = 0; row < rows; ++row)
    foreground_.add_row(std::span(classes_).subspan(as_size(row * shape()[2]), as_size(shape()[2])));
}

}  // namespace tandem
