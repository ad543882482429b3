// PreparedCase of a whole case: cut, normalise, resample, as nnU-Net does, in this order.
#include <algorithm>

#include "core/base/error.h"
#include "data/nonzero_mask.h"
#include "data/prepared_case.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Statistics of a channel [size z, y, x]; with a mask those of its voxels. Names the first voxel that is not
// finite, of all of them.
ChannelStatistics measure(std::span<const float> plane, const Index3& size, const NormalizeOptions& options,
                          std::span<const std::uint8_t> mask, const std::string& file) {
  ChannelStatistics statistics(options), finite({.channel = options.channel, .kind = NormalizeKind::kNone});
  const std::size_t slice = as_size(size[1] * size[2]);
  for (std::int64_t z = 0; z < size[0]; ++z) {
    const auto values = plane.subspan(as_size(z) * slice, slice);
    if (mask.empty()) {
      statistics.add_slice(values, z, size[2], file);
      continue;
    }
    finite.add_slice(values, z, size[2], file);
    std::vector<float> inside;
    for (std::size_t i = 0; i < slice; ++i)
      if (mask[as_size(z) * slice + i] != 0) inside.push_back(values[i]);
    statistics.add_slice(inside, z, size[2], file);
  }
  return statistics;
}

// From `size` voxels to data.spacing.
ResamplePlan plan_of(const Index3& size, const Geometry& grid, const DataOptions& options) {
  ResamplePlan plan{size, size, {}};
  if (!options.spacing) return plan;
  plan.to = resampled_shape(size, grid.spacing_mm(), *options.spacing);
  plan.separate = separate_axis(grid.spacing_mm(), *options.spacing);
  return plan;
}

}  // namespace

GridPlacement PreparedCase::largest_placement(const CaseInfo& info, const DataOptions& options) {
  const Index3& size = info.geometry.shape();
  return {size, {}, plan_of(size, info.geometry, options)};
}

void PreparedCase::prepare(const DataOptions& options) {
  in_memory_ = true;
  if (const auto box = options.crop_nonzero ? nonzero_box(*source_) : std::nullopt) {
    crop_begin_ = box->begin;
    plan_.from = box->size;
  }
  plan_ = plan_of(plan_.from, info_.geometry, options);
  prepare_image(options);
  if (has_labels()) prepare_labels();
}

void PreparedCase::prepare_image(const DataOptions& options) {
  const Index3& size = plan_.from;
  const std::int64_t voxels = voxel_count(size);
  std::vector<float> planes(as_size(voxels * channels()));
  source_->read_image(crop_begin_, size, planes);
  source_->release_image();
  const bool any_masked = !masked_channels(options.normalize).empty();
  const std::vector<std::uint8_t> mask =
      any_masked ? nonzero_mask(planes, size) : std::vector<std::uint8_t>();
  const std::vector<std::uint8_t> kept = any_masked ? resample_classes(mask, plan_) : mask;
  image_.resize(as_size(voxel_count(plan_.to) * channels()));
  for (std::int64_t c = 0; c < channels(); ++c) {
    const std::span<float> plane = std::span(planes).subspan(as_size(c * voxels), as_size(voxels));
    const NormalizeOptions kind = normalize_options_of(options.normalize, c);
    const auto inside = kind.masked ? std::span(mask) : std::span<const std::uint8_t>();
    scales_.push_back(measure(plane, size, kind, inside, info_.file).scale());
    for (std::size_t i = 0; i < plane.size(); ++i)
      plane[i] = kind.masked && mask[i] == 0 ? 0 : scales_.back()(plane[i]);
    const std::vector<float> resampled = resample_values(plane, plan_, 1, 3);
    for (std::size_t i = 0; i < resampled.size(); ++i)
      image_[i * as_size(channels()) + as_size(c)] = kind.masked && kept[i] == 0 ? 0 : resampled[i];
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
