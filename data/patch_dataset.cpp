// Cases to training patches.
#include "data/patch_dataset.h"

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "data/augment.h"
#include "data/case_cache.h"
#include "data/patch_grid.h"
#include "data/patch_sampler.h"
#include "data/spatial.h"
#include "data/split.h"

namespace tandem {

namespace {

LabelMap checked_labels(const DataOptions& data) {
  if (data.train.empty())
    fail(ErrorKind::kConfig, "[data] data.train: got no files, expected at least one case to train on");
  return LabelMap(data);
}

// Class indices [1, 1, D, H, W] to targets [1, R, D, H, W], which are stored D, H, W, R.
Tensor region_targets(const Tensor& classes, const LabelMap& labels) {
  Tensor targets(classes.shape().with(1, labels.regions()), DType::kI32, kCpuDevice, MemoryCategory::kData);
  const std::int32_t* cls = classes.data<std::int32_t>();
  std::int32_t* target = targets.data<std::int32_t>();
  for (std::int64_t v = 0; v < classes.numel(); ++v, ++cls)
    for (std::int64_t r = 0; r < labels.regions(); ++r)
      *target++ = *cls == kIgnoredLabel ? kIgnoredLabel : labels.in_region(r, *cls) ? 1 : 0;
  return targets;
}

}  // namespace

PatchDataset::PatchDataset(const DataOptions& data, const PatchOptions& patch, const AugmentOptions& augment,
                           bool dry_run, const StopRequested& stop_requested)
    : masked_channels_(masked_channels(data.normalize)),
      labels_(checked_labels(data)),
      patch_(patch),
      augment_(augment) {
  class_weights_ = patch_class_weights(patch, labels_);
  add_cases(data, dry_run, stop_requested);
  if (patch.sampling == PatchSampling::kGrid) add_grid();
}

namespace {

// Headers of all cases, which must fit together.
std::vector<CaseInfo> read_infos(const std::vector<CaseEntry>& entries, const DataOptions& data,
                                 const StopRequested& stop_requested) {
  std::vector<CaseInfo> infos;
  for (const CaseEntry& entry : entries) {
    leave_if_stopped(stop_requested);
    infos.push_back(read_case_info(entry, data.orientation));
    const CaseInfo &info = infos.back(), &first = infos.front();
    if (!info.has_labels)
      throw Error(
          ErrorKind::kData,
          fmt::format("[data] {}: got a case without labels, expected labels to train on", entry.file()),
          how_to_label(entry.file()));
    if (info.channels != first.channels)
      fail(ErrorKind::kData, "[data] {}: got {}, expected {} as {}", entry.file(),
           counted(info.channels, "channel"), first.channels, first.file);
  }
  return infos;
}

}  // namespace

void PatchDataset::add_case(const CaseEntry& entry, const DataOptions& data, bool in_memory) {
  cases_.push_back(std::make_unique<PreparedCase>(open_case(entry, data.orientation), data, in_memory));
  if (cases_.back()->in_memory()) cases_.back()->release_source();
}

void PatchDataset::add_cases(const DataOptions& data, bool dry_run, const StopRequested& stop_requested) {
  const std::vector<CaseEntry> entries = training_cases(data);
  const std::vector<CaseInfo> infos = read_infos(entries, data, stop_requested);
  std::int64_t cached_bytes = 0, on_disk = 0, disk_bytes = 0, reading_bytes = 0;
  for (const CaseInfo& info : infos)
    reading_bytes = std::max(reading_bytes, PreparedCase::reading_bytes(info, data));
  const std::int64_t most_bytes = memory_for_cases(data, reading_bytes);
  std::filesystem::path folder;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    leave_if_stopped(stop_requested);
    const CaseEntry& entry = entries[i];
    has_weights_ = has_weights_ || infos[i].has_weights;
    const bool by_box = is_case_file_name(entry.file()) && !PreparedCase::needs_whole_case(data);
    const std::int64_t bytes = PreparedCase::memory_bytes(infos[i], data);
    const bool fits = data.cache == CacheKind::kRam && cached_bytes + bytes <= most_bytes;
    if (fits) cached_bytes += bytes;
    const std::size_t before = cases_.size();
    if (fits || data.cache == CacheKind::kNone) {
      add_case(entry, data, fits || !by_box);
    } else {
      ++on_disk;
      disk_bytes += bytes;
      if (dry_run && (by_box || cases_.empty())) add_case(entry, data, !by_box);
      is_partial_ = is_partial_ || (dry_run && cases_.size() == before);
      if (!dry_run && folder.empty()) folder = cache_folder(data);
      if (!dry_run) cases_.push_back(open_cached(entry, data, folder));
    }
    if (cases_.size() > before && cases_.back()->foreground().present_foreground().empty())
      log_warning("[data] {}: has no foreground voxel; its patches are placed at random", entry.file());
  }
  if (on_disk > 0 && dry_run)
    log_info("{} of {} would be read from the disk cache, about {:.2f} GiB", counted(on_disk, "case"),
             entries.size(), static_cast<double>(disk_bytes) / (1 << 30));
  else if (on_disk > 0)
    log_info("read from the disk cache: {} of {}, in {}", counted(on_disk, "case"), cases_.size(),
             folder.string());
}

void PatchDataset::add_grid() {
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    const std::vector<Index3> origins = grid_patches(*cases_[i], patch_, static_cast<std::int64_t>(i));
    if (origins.empty())
      log_warning("[data] {}: none of its patches has enough foreground", cases_[i]->info().file);
    for (const Index3& origin : origins) grid_.push_back({i, origin});
  }
  if (grid_.empty())
    throw Error(ErrorKind::kData,
                fmt::format("[patch] min_foreground: got 0 patches of {} with more than {} of foreground, "
                            "expected at least one",
                            counted(cases_.size(), "case"), patch_.min_foreground.value_or(0)),
                "Lower patch.min_foreground, or raise patch.slack.");
  log_info("{} of {} on the grid of {}", counted(grid_.size(), "patch", "patches"),
           to_string(Index3(patch_.size)), counted(cases_.size(), "case"));
}

namespace {

// Reads the box that the map needs, and the patch through it.
void read_through(const PreparedCase& source, const SpatialMap& map, const Index3& origin,
                  const PatchView& patch) {
  const SpatialBox box = spatial_box(map);
  const auto voxels = static_cast<std::size_t>(voxel_count(box.size));
  std::vector<float> image(voxels * static_cast<std::size_t>(patch.channels)),
      weight(patch.weight.empty() ? 0 : voxels);
  std::vector<std::int32_t> label(voxels);
  source.read_box({origin[0] + box.begin[0], origin[1] + box.begin[1], origin[2] + box.begin[2]}, box.size,
                  image, label, weight);
  resample_patch(map, box, {box.size, patch.channels, image, label, weight}, patch);
}

}  // namespace

Index3 PatchDataset::draw_place(const PreparedCase& source, const Draw& draw) const {
  RandomStream stream(draw.seed, RandomPurpose::kPatch, draw.epoch, draw.sample);
  const bool forced = is_forced_foreground(draw.slot, draw.batch_size, patch_.foreground, stream);
  return draw_origin(source, patch_, forced, stream, class_weights_);
}

Sample PatchDataset::get(std::int64_t index, const Draw& draw) const {
  const auto at = static_cast<std::size_t>(index);
  const PreparedCase& source = *cases_[grid_.empty() ? at : grid_[at].number];
  const Index3& size = patch_.size;
  Sample sample{
      Tensor({1, channels(), size[0], size[1], size[2]}, DType::kF32, kCpuDevice, MemoryCategory::kData),
      Tensor({1, 1, size[0], size[1], size[2]}, DType::kI32, kCpuDevice, MemoryCategory::kData),
      source.info().id, grid_.empty() ? draw_place(source, draw) : grid_[at].origin};
  PatchView patch{size,
                  channels(),
                  {sample.image.data<float>(), static_cast<std::size_t>(sample.image.numel())},
                  {sample.label.data<std::int32_t>(), static_cast<std::size_t>(sample.label.numel())}};
  if (has_weights_) {
    sample.weight = Tensor(sample.label.shape(), DType::kF32, kCpuDevice, MemoryCategory::kData);
    patch.weight = {sample.weight.data<float>(), static_cast<std::size_t>(sample.weight.numel())};
  }
  if (const std::optional<SpatialMap> map = draw_spatial(augment_, size, draw))
    read_through(source, *map, sample.origin, patch);
  else
    source.read_box(sample.origin, size, patch.image, patch.label, patch.weight);
  augment_patch(patch, augment_, draw, masked_channels_);
  if (labels_.regions() > 0) sample.label = region_targets(sample.label, labels_);
  return sample;
}

}  // namespace tandem
