// The memory of a step, foreseen from small patches, against what a step takes; and what is said when it is
// not there.
#include "train/memory_estimate.h"

#include <gmock/gmock.h>

#include "core/base/rng.h"
#include "core/tensor/allocator.h"
#include "tests/data/test_files.h"
#include "train/criterion.h"
#include "train/session.h"

namespace tandem {
namespace {

using ::testing::ContainsRegex;
using testing::error_of;
using ::testing::HasSubstr;

constexpr double kGiB = 1 << 30;

// The demo's job: unet3d of 16, 32, 64 features.
JobOptions demo_job(const std::vector<std::string>& overrides = {}) {
  JobOptions job = load_job(std::string(TANDEM_SOURCE_DIR) + "/configs/unet3d_ct.yaml", overrides);
  job.threads = 1;
  return job;
}

class Noise final : public Dataset {
 public:
  explicit Noise(const Index3& patch) : patch_(patch) {}
  std::int64_t size() const override { return 8; }
  Sample get(std::int64_t, const Draw& draw) const override {
    const Shape shape{1, 1, patch_[0], patch_[1], patch_[2]};
    Sample sample{Tensor(shape, DType::kF32, kCpuDevice, MemoryCategory::kData),
                  Tensor(shape, DType::kI32, kCpuDevice, MemoryCategory::kData), "noise", Index3{}};
    RandomStream stream(draw.seed, RandomPurpose::kSynthetic, draw.epoch, draw.sample);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      sample.image.data<float>()[i] = static_cast<float>(stream.normal());
      sample.label.data<std::int32_t>()[i] = static_cast<std::int32_t>(stream.below(6));
    }
    return sample;
  }

 private:
  Index3 patch_;
};

// What a step of `job` reserves, with a loader like a run's.
double reserved_by(const JobOptions& job) {
  ModelSession session = make_session(job, 1);
  const std::shared_ptr<Allocator> allocator = allocator_of(kCpuDevice);
  allocator->empty_cache();
  const std::int64_t before = allocator->statistics().reserved;
  Trainer trainer(session.context, session.precision, *session.model,
                  make_criterion(job.loss, job.data.outputs()),
                  {.optimizer = job.optimizer, .accumulate = job.train.accumulate});
  Loader loader(std::make_shared<Noise>(job.patch.size),
                {.batch_size = job.train.batch_size, .workers = 1, .prefetch = job.data.prefetch});
  trainer.step(loader);
  return static_cast<double>(allocator->statistics().reserved - before);
}

class MemoryEstimate : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(MemoryEstimate, IsWithinAQuarterOfWhatAStepTakes) {
  const JobOptions job = demo_job(GetParam());
  const double foreseen = measure_step_memory(job, 1).total(job.patch.size, job.train.batch_size);
  const double taken = reserved_by(job);
  EXPECT_GT(foreseen, taken / 1.25);
  EXPECT_LT(foreseen, taken * 1.25);
  std::printf("foreseen %.1f MiB, taken %.1f MiB: %.3f\n", foreseen / (1 << 20), taken / (1 << 20),
              foreseen / taken);
}

INSTANTIATE_TEST_SUITE_P(
    Demo, MemoryEstimate,
    ::testing::Values(std::vector<std::string>{"precision.compute=fp32", "patch.size=[40, 40, 40]",
                                               "train.batch_size=1"},
                      std::vector<std::string>{"precision.compute=fp16", "patch.size=[24, 40, 32]"},
                      std::vector<std::string>{"precision.compute=bf16", "patch.size=[32, 24, 24]",
                                               "train.accumulate=2", "data.prefetch=4"}));

// 100 MiB of weights, 2 KiB a voxel of the step and 24 bytes of the loader.
StepMemory round_numbers() {
  return {.weights = 100 * 1048576.0, .step_per_voxel = 2048, .loader_per_voxel = 24};
}

TEST(StepFits, SaysWhatIsNeededWhatIsThereAndWhatWouldFit) {
  const JobOptions job = demo_job({"patch.size=[128, 128, 128]", "precision.compute=fp32"});
  // 2 x 128^3 voxels: 8 GiB, 96 MiB and the weights.
  EXPECT_EQ(
      error_of(ErrorKind::kResource,
               [&] { expect_step_fits(round_numbers(), job, static_cast<std::int64_t>(5 * kGiB)); }),
      "[memory] a step of batch 2 x [128, 128, 128]: got about 8.2 GiB (weights and moments 100.0 MiB, "
      "step 8.0 GiB, loader 96.0 MiB), expected at most the 5.0 GiB that this process may still take. Set "
      "patch.size=[104, 104, 104] (about 4.4 GiB), or train.batch_size=1 (about 4.1 GiB), or "
      "precision.compute=bf16 or fp16 (about half of the step).");
}

TEST(StepFits, NearTheLimitItWarnsAndTries) {
  const JobOptions job = demo_job({"patch.size=[128, 128, 128]"});
  ::testing::internal::CaptureStderr();
  expect_step_fits(round_numbers(), job, static_cast<std::int64_t>(7 * kGiB));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("8.2 GiB"));
  expect_step_fits(round_numbers(), job, static_cast<std::int64_t>(9 * kGiB));
  EXPECT_THROW(expect_step_fits(round_numbers(), job, static_cast<std::int64_t>(6 * kGiB)), Error);
}

TEST(StepFits, WhereNothingFitsItSaysSo) {
  const JobOptions job = demo_job({"patch.size=[8, 8, 8]", "train.batch_size=1"});
  EXPECT_THAT(error_of(ErrorKind::kResource, [&] { expect_step_fits(round_numbers(), job, 1 << 20); }),
              HasSubstr("Use a machine with more memory, or a smaller model."));
}

}  // namespace
}  // namespace tandem
