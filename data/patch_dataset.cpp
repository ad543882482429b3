// Cases to training patches.
#include "data/patch_dataset.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "data/augment.h"
#include "data/patch_sampler.h"

namespace tandem {

PatchDataset::PatchDataset(const DataOptions& data, const PatchOptions& patch, const AugmentOptions& augment)
    : patch_(patch), augment_(augment) {
  if (data.train.empty())
    fail(ErrorKind::kConfig, "[data] data.train: got no files, expected at least one case to train on");
  std::int64_t cached_bytes = 0, uncached = 0;
  for (const CaseEntry& entry : training_cases(data)) {
    const std::string& file = entry.file();
    std::unique_ptr<VoxelSource> source = open_case(entry, data.orientation);
    const CaseInfo info = source->info();
    if (!info.has_labels)
      fail(ErrorKind::kData, "[data] {}: got a case without labels, expected one to train on", file);
    if (!cases_.empty() && info.channels != channels())
      fail(ErrorKind::kData, "[data] {}: got {} channels, expected {} as {}", file, info.channels, channels(),
           cases_.front()->info().file);
    const std::int64_t bytes = PreparedCase::memory_bytes(info);
    const bool in_memory = data.cache == CacheKind::kRam && cached_bytes + bytes <= data.cache_bytes;
    if (in_memory) cached_bytes += bytes;
    if (!in_memory && data.cache == CacheKind::kRam) ++uncached;
    cases_.push_back(std::make_unique<PreparedCase>(std::move(source), data, in_memory));
    if (cases_.back()->foreground().present_foreground().empty())
      log_warning("[data] {}: has no foreground voxel; its patches are placed at random", file);
  }
  if (uncached > 0)
    log_warning("[data] {} of {} cases do not fit data.cache_bytes ({} bytes) and are read from their files",
                uncached, cases_.size(), data.cache_bytes);
}

Sample PatchDataset::get(std::int64_t index, const Draw& draw) const {
  const PreparedCase& source = *cases_[static_cast<std::size_t>(index)];
  RandomStream stream(draw.seed, RandomPurpose::kPatch, draw.epoch, draw.sample);
  const bool forced = is_forced_foreground(draw.slot, draw.batch_size, patch_.foreground, stream);
  const Index3& size = patch_.size;
  Sample sample{
      Tensor({1, channels(), size[0], size[1], size[2]}, DType::kF32, kCpuDevice, MemoryCategory::kData),
      Tensor({1, 1, size[0], size[1], size[2]}, DType::kI32, kCpuDevice, MemoryCategory::kData),
      source.info().id, draw_origin(source, patch_, forced, stream)};
  const PatchView patch{size,
                        channels(),
                        {sample.image.data<float>(), static_cast<std::size_t>(sample.image.numel())},
                        {sample.label.data<std::int32_t>(), static_cast<std::size_t>(sample.label.numel())}};
  source.read_box(sample.origin, size, patch.image, patch.label);
  augment_patch(patch, augment_, draw);
  return sample;
}

}  // namespace tandem
