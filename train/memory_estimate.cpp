// Measuring two small steps, drawing the line, and what would fit.
#include "train/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "data/case_cache.h"
#include "data/free_memory.h"
#include "data/split.h"
#include "data/voxel_source.h"
#include "train/criterion.h"
#include "train/device_choice.h"
#include "train/evaluate.h"
#include "train/session.h"
#include "train/trainer.h"
#include "train/validation_memory.h"

namespace tandem {
namespace {

constexpr std::int64_t kProbeEdge = 32;
// More than any model takes for a voxel of a patch: below it nothing needs to be measured.
constexpr double kMostBytesPerVoxel = 1 << 16;

// What the network sees is noise; what it shall find is background.
class NoisePatches final : public Dataset {
 public:
  NoisePatches(const Index3& patch, std::int64_t channels, std::int64_t label_channels)
      : image_({1, channels, patch[0], patch[1], patch[2]}),
        label_({1, label_channels, patch[0], patch[1], patch[2]}) {}
  std::int64_t size() const override { return 1; }
  Sample get(std::int64_t, const Draw& draw) const override {
    Sample sample{Tensor(image_, DType::kF32, kCpuDevice, MemoryCategory::kData),
                  Tensor::zeros(label_, DType::kI32, kCpuDevice, MemoryCategory::kData), "noise", Index3{}};
    RandomStream stream(draw.seed, RandomPurpose::kSynthetic, draw.epoch, draw.sample);
    for (std::int64_t i = 0; i < image_.numel(); ++i)
      sample.image.data<float>()[i] = static_cast<float>(stream.normal());
    return sample;
  }

 private:
  Shape image_, label_;
};

// The smallest patch from kProbeEdge on that the model takes, and no larger than the job's.
Index3 probe_patch(const JobOptions& job) {
  const ModelTraits traits = model_traits(job.model);
  Index3 patch = job.patch.size;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t multiple = traits.size_multiple[axis];
    const std::int64_t edge = (kProbeEdge + multiple - 1) / multiple * multiple;
    if (!traits.is_fixed_size) patch[axis] = std::min(patch[axis], edge);
  }
  return patch;
}

// Bytes: what model and optimizer hold, and what a step and a forward pass take from the system beyond it,
// with the blocks that wait for a request of their size.
struct Measured {
  double weights = 0, rest = 0, forward = 0;
};

// Takes one step of a new copy of the job's model, and predicts as validations do.
Measured measure(const JobOptions& job, std::int64_t in_channels, std::int64_t batch) {
  ModelSession session = make_session(job, in_channels);
  const std::shared_ptr<Allocator> allocator = allocator_of(session.context.device);
  allocator->empty_cache();
  const std::int64_t kept = allocator->statistics().total_current,
                     reserved = allocator->statistics().reserved;
  Measured result;
  {
    Trainer trainer(session.context, session.precision, *session.model,
                    make_criterion(job.loss, job.data.outputs()),
                    {.optimizer = job.optimizer, .loss_scale = {.mode = LossScaleMode::kOff}});
    result.weights = static_cast<double>(allocator->statistics().total_current - kept);
    const auto beyond_weights = [&] {
      return static_cast<double>(allocator->statistics().reserved - reserved) - result.weights;
    };
    {
      Loader loader(std::make_shared<NoisePatches>(job.patch.size, in_channels,
                                                   job.data.regions.empty() ? 1 : job.data.outputs()),
                    {.batch_size = batch});
      trainer.step(loader);
      result.rest = beyond_weights();
    }
    allocator->empty_cache();
    trainer.with_mean_weights([&] {
      const Index3& patch = job.patch.size;
      const Shape shape{batch, in_channels, patch[0], patch[1], patch[2]};
      const Tensor image = Tensor::zeros(shape, DType::kF32, kCpuDevice, MemoryCategory::kData);
      (void)patch_model(session.context, *session.model)(image);
      result.forward = beyond_weights();
    });
  }
  allocator->empty_cache();
  allocator->reset_peak();
  return result;
}

double voxels(const Index3& patch) { return static_cast<double>(voxel_count(patch)); }

// The greatest part of the job's batch that fits with its patch; 0: none.
std::int64_t fitting_batch(const StepMemory& memory, const JobOptions& job, double free) {
  std::int64_t batch = job.train.batch_size;
  while (batch > 0 && memory.total(job.patch.size, batch) > free) --batch;
  return batch;
}

// What to change, with values that fit into `free` bytes.
std::string remedy(const StepMemory& memory, const JobOptions& job, double free) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "Set " : ", or ") + part; };
  if (const std::optional<Index3> patch = fitting_patch(
          job, [&](const Index3& size) { return memory.total(size, job.train.batch_size) <= free; }))
    add(fmt::format("patch.size={} (about {})", to_string(*patch),
                    memory_size_text(memory.total(*patch, job.train.batch_size))));
  if (const std::int64_t batch = fitting_batch(memory, job, free); batch > 0)
    add(fmt::format("train.batch_size={} (about {})", batch,
                    memory_size_text(memory.total(job.patch.size, batch))));
  if (compute_dtype(job.precision.compute) == DType::kF32)
    add("precision.compute=bf16 or fp16 (about half of the step)");
  return text.empty() ? "Use a machine with more memory, or a smaller model." : text + ".";
}

std::int64_t bytes_of_cases(const JobOptions& job, const std::vector<CaseEntry>& cases) {
  if (job.data.cache != CacheKind::kRam) return 0;
  std::int64_t bytes = 0;
  for (const CaseEntry& entry : cases)
    bytes += PreparedCase::memory_bytes(read_case_info(entry, job.data.orientation), job.data);
  return std::min(bytes, memory_for_cases(job.data));
}

// Headers of the validation cases; none where one cannot be read: the run says that better.
std::vector<CaseInfo> validation_infos(const DataOptions& data) {
  std::vector<CaseInfo> infos;
  try {
    for (const CaseEntry& entry : validation_cases(data))
      infos.push_back(read_case_info(entry, data.orientation));
  } catch (const Error&) {
    infos.clear();
  }
  return infos;
}

// Whether neither a step nor a validation can come near `free` bytes, whatever the model.
bool is_small(const JobOptions& job, const std::vector<CaseInfo>& validation, double free) {
  const double most = kMostBytesPerVoxel * voxels(job.patch.size);
  if (most * static_cast<double>(job.train.batch_size) >= free) return false;
  StepMemory memory{.forward_per_voxel = kMostBytesPerVoxel};
  if (job.data.cache == CacheKind::kRam) memory.cases = memory_for_cases(job.data);
  return validation.empty() || validation_memory(memory, job, validation).total() < free;
}

}  // namespace

std::string memory_size_text(double bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < std::size(units); bytes /= 1024) ++unit;
  return fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::optional<Index3> fitting_patch(const JobOptions& job, const std::function<bool(const Index3&)>& fits) {
  const ModelTraits traits = model_traits(job.model);
  Index3 patch = job.patch.size;
  if (traits.is_fixed_size) return std::nullopt;
  while (!fits(patch)) {
    std::size_t longest = 0;
    for (std::size_t axis = 1; axis < 3; ++axis)
      if (patch[axis] > patch[longest]) longest = axis;
    patch[longest] -= traits.size_multiple[longest];
    if (patch[longest] < traits.size_multiple[longest]) return std::nullopt;
  }
  return patch;
}

double StepMemory::of_loader(const Index3& patch, std::int64_t batch) const {
  return loader_per_voxel * voxels(patch) * static_cast<double>(batch);
}
double StepMemory::of_step(const Index3& patch, std::int64_t batch) const {
  return fixed + step_per_voxel * voxels(patch) * static_cast<double>(batch);
}
double StepMemory::of_forward(const Index3& patch) const {
  return forward_fixed + forward_per_voxel * voxels(patch);
}
double StepMemory::total(const Index3& patch, std::int64_t batch) const {
  return weights + of_step(patch, batch) + of_loader(patch, batch) + static_cast<double>(cases);
}

StepMemory measure_step_memory(const JobOptions& job, std::int64_t in_channels) {
  JobOptions probe = job;
  probe.patch.size = probe_patch(job);
  const Measured one = measure(probe, in_channels, 1), two = measure(probe, in_channels, 2);
  const double size = voxels(probe.patch.size);
  StepMemory memory;
  memory.weights = one.weights;
  memory.step_per_voxel = std::max(0.0, two.rest - one.rest) / size;
  memory.fixed = std::max(0.0, one.rest - memory.step_per_voxel * size);
  memory.forward_per_voxel = std::max(0.0, two.forward - one.forward) / size;
  memory.forward_fixed = std::max(0.0, one.forward - memory.forward_per_voxel * size);
  // The measured steps held one batch and its samples; a run holds each micro-batch of the step and what the
  // loader has ready, and each worker a sample.
  const double sample =
      4.0 * static_cast<double>(in_channels + 1 + (job.data.regions.empty() ? 1 : job.data.outputs()));
  memory.loader_per_voxel = sample * static_cast<double>(job.train.accumulate - 1 + job.data.prefetch + 1);
  return memory;
}

std::string memory_text(const StepMemory& memory, const Index3& patch, std::int64_t batch) {
  return fmt::format(
      "{} (weights and moments {}, step {}, loader {}{})", memory_size_text(memory.total(patch, batch)),
      memory_size_text(memory.weights), memory_size_text(memory.of_step(patch, batch)),
      memory_size_text(memory.of_loader(patch, batch)),
      memory.cases > 0 ? ", cases " + memory_size_text(static_cast<double>(memory.cases)) : "");
}

void expect_step_fits(const StepMemory& memory, const JobOptions& job, std::int64_t free_bytes) {
  constexpr double kMostTooHigh = 1.25, kComfort = 0.9;
  const double need = memory.total(job.patch.size, job.train.batch_size),
               free = static_cast<double>(free_bytes);
  if (need <= free) return;
  const std::string text = fmt::format(
      "[memory] a step of batch {} x {}: got about {}, expected at most the {} that this process may still "
      "take",
      job.train.batch_size, to_string(Index3(job.patch.size)),
      memory_text(memory, job.patch.size, job.train.batch_size), memory_size_text(free));
  if (need <= kMostTooHigh * free)
    log_warning("{}. It is tried.", text);
  else
    throw Error(ErrorKind::kResource, text, remedy(memory, job, kComfort * free));
}

void expect_memory_for(const JobOptions& job, bool validates) {
  const std::int64_t free = free_memory_bytes();
  if (device_of(job.device).kind != DeviceKind::kCpu) return;
  const std::vector<CaseInfo> validation = validates ? validation_infos(job.data) : std::vector<CaseInfo>();
  if (is_small(job, validation, static_cast<double>(free))) return;
  const std::vector<CaseEntry> cases = training_cases(job.data);
  if (cases.empty()) return;  // the dataset says so
  StepMemory memory = measure_step_memory(job, read_case_info(cases.front(), job.data.orientation).channels);
  memory.cases = bytes_of_cases(job, cases);
  expect_step_fits(memory, job, free);
  if (!validation.empty()) expect_validation_fits(memory, job, validation, free);
}

}  // namespace tandem
