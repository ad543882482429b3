// The parts of a validation's memory, and what would fit.
#include "train/validation_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "data/case_cache.h"
#include "data/case_file.h"
#include "data/prediction.h"
#include "data/segmentation_metrics.h"

namespace tandem {
namespace {

constexpr std::int64_t kLabel = sizeof(std::int32_t), kValue = sizeof(float);

bool needs_surfaces(const JobOptions& job) {
  const std::vector<MetricRow> rows = chosen_metrics(job.validate.metrics);
  return std::any_of(rows.begin(), rows.end(), [](const MetricRow& row) { return !row.is_overlap; });
}

// As prepare_whole_case decides, by the memory that is free now.
bool keeps_case(const DataOptions& data, const CaseInfo& info) {
  return PreparedCase::needs_whole_case(data) ||
         (data.cache == CacheKind::kRam && PreparedCase::memory_bytes(info, data) <= memory_for_cases(data));
}

std::int64_t volume_bytes(const JobOptions& job, const CaseInfo& info) {
  // Two masks, two surfaces, and squared distances in double.
  constexpr std::int64_t kSurface = 4 + static_cast<std::int64_t>(sizeof(double));
  const std::int64_t voxels = voxel_count(info.geometry.shape());
  const std::int64_t kept = keeps_case(job.data, info) ? PreparedCase::memory_bytes(info, job.data) : 0;
  // NIfTI is held as it was read, its image until the case is prepared as a whole.
  const std::int64_t image = PreparedCase::needs_whole_case(job.data) ? 0 : info.channels * kValue;
  const std::int64_t source = is_case_file_name(info.file) ? 0 : voxels * (kLabel + image);
  const std::int64_t scoring = voxels * (2 * kLabel + (needs_surfaces(job) ? kSurface : 0));
  return kept + std::max(PreparedCase::reading_bytes(info, job.data), source + scoring);
}

ValidationMemory memory_of(const StepMemory& memory, const JobOptions& job, const CaseInfo& info) {
  const Index3 patch = job.patch.size;
  const WindowOptions window = window_options(job.validate, job.patch, job.augment);
  ValidationMemory result{.file = info.file, .shape = info.geometry.shape()};
  result.state =
      memory.weights + memory.of_loader(patch, job.train.batch_size) + static_cast<double>(memory.cases);
  result.forward = memory.of_forward(patch);
  if (!window.mirror_axes.empty())  // the image as it is, beside its mirrored copy
    result.forward += static_cast<double>(voxel_count(patch) * info.channels * kValue);
  result.sums = static_cast<double>(prediction_bytes(PreparedCase::largest_placement(info, job.data), window,
                                                     1, {.classes = job.data.outputs()})
                                        .sums);
  result.volumes = static_cast<double>(volume_bytes(job, info));
  return result;
}

// What to change, with values that bring the validation under `free` bytes.
std::string remedy(const StepMemory& memory, const JobOptions& job, const std::vector<CaseInfo>& cases,
                   double free) {
  std::string text;
  const auto total = [&](const JobOptions& changed) {
    return validation_memory(memory, changed, cases).total();
  };
  const auto offer = [&](const std::string& key, const JobOptions& changed) {
    if (const double bytes = total(changed); bytes <= free)
      text += fmt::format("{}{} (about {})", text.empty() ? "Set " : ", or ", key, memory_size_text(bytes));
  };
  JobOptions changed = job;
  const auto patch = fitting_patch(job, [&](const Index3& size) {  // not below half: that is another model
    changed.patch.size = size;
    for (std::size_t a = 0; a < 3; ++a)
      if (2 * size[a] < job.patch.size[a]) return true;
    return total(changed) <= free;
  });
  if (patch) offer(fmt::format("patch.size={}", to_string(*patch)), changed);
  changed = job;
  changed.data.cache = CacheKind::kDisk;
  if (job.data.cache == CacheKind::kRam) offer("data.cache=disk", changed);
  changed = job;
  changed.validate.metrics = {"dice", "iou"};
  if (needs_surfaces(job)) offer("validate.metrics=[dice, iou]", changed);
  const std::string file = validation_memory(memory, job, cases).file;
  return fmt::format("{}{} out of the validation and score it with `tandem eval`.",
                     text.empty() ? "Leave " : text + "; or leave ", file);
}

}  // namespace

ValidationMemory validation_memory(const StepMemory& memory, const JobOptions& job,
                                   const std::vector<CaseInfo>& cases) {
  ValidationMemory most;
  for (const CaseInfo& info : cases)
    if (ValidationMemory one = memory_of(memory, job, info); one.total() > most.total())
      most = std::move(one);
  return most;
}

void expect_validation_fits(const StepMemory& memory, const JobOptions& job,
                            const std::vector<CaseInfo>& cases, std::int64_t free_bytes) {
  constexpr double kMostTooHigh = 1.25, kComfort = 0.9;
  const ValidationMemory need = validation_memory(memory, job, cases);
  const auto free = static_cast<double>(free_bytes);
  if (need.total() <= free) return;
  const std::string text = fmt::format(
      "[memory] the validation of {} {}: got about {} (training state {}, network {}, sums {}, case and "
      "labels {}), expected at most the {} that this process may still take",
      need.file, to_string(need.shape), memory_size_text(need.total()), memory_size_text(need.state),
      memory_size_text(need.forward), memory_size_text(need.sums), memory_size_text(need.volumes),
      memory_size_text(free));
  if (need.total() <= kMostTooHigh * free)
    log_warning("{}. It is tried.", text);
  else
    throw Error(ErrorKind::kResource, text, remedy(memory, job, cases, kComfort * free));
}

}  // namespace tandem
