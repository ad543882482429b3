// The memory of a step and of a validation, foreseen from small patches, against what they take; and what is
// said when it is not there.
#include "train/memory_estimate.h"

#include <gmock/gmock.h>

#include "core/base/rng.h"
#include "core/tensor/allocator.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "train/criterion.h"
#include "train/run_validation.h"
#include "train/session.h"
#include "train/validation_memory.h"

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
  explicit Noise(const JobOptions& job)
      : patch_(job.patch.size),
        regions_(static_cast<std::int64_t>(job.data.regions.size())),
        classes_(job.data.classes()) {}
  std::int64_t size() const override { return 8; }
  Sample get(std::int64_t, const Draw& draw) const override {
    const Shape shape{1, 1, patch_[0], patch_[1], patch_[2]};
    const Shape labels = regions_ > 0 ? shape.with(1, regions_) : shape;
    Sample sample{Tensor(shape, DType::kF32, kCpuDevice, MemoryCategory::kData),
                  Tensor(labels, DType::kI32, kCpuDevice, MemoryCategory::kData), "noise", Index3{}};
    RandomStream stream(draw.seed, RandomPurpose::kSynthetic, draw.epoch, draw.sample);
    for (std::int64_t i = 0; i < shape.numel(); ++i)
      sample.image.data<float>()[i] = static_cast<float>(stream.normal());
    const auto values = static_cast<std::uint32_t>(regions_ > 0 ? 2 : classes_);
    for (std::int64_t i = 0; i < labels.numel(); ++i)
      sample.label.data<std::int32_t>()[i] = static_cast<std::int32_t>(stream.below(values));
    return sample;
  }

 private:
  Index3 patch_;
  std::int64_t regions_, classes_;
};

constexpr Index3 kCaseShape{52, 61, 44};

void write_noise_case(const std::filesystem::path& path, const Index3& shape = kCaseShape) {
  Volume image{testing::plain_grid(shape), 1, {}};
  LabelVolume labels{testing::plain_grid(shape), {}};
  RandomStream stream(3, RandomPurpose::kSynthetic, 0, 0);
  for (std::int64_t i = 0; i < voxel_count(shape); ++i) {
    image.values.push_back(static_cast<float>(stream.normal()));
    labels.values.push_back(77 + static_cast<std::int32_t>(stream.below(8)));
  }
  write_case(path, "noise", image, &labels);
}

// What a run of `job` reserves during a step, during the validation after it, and after that.
struct Reserved {
  double step = 0, validation = 0, after = 0;
};
Reserved reserved_by(const JobOptions& job, const std::filesystem::path& validated) {
  ModelSession session = make_session(job, 1);
  const std::shared_ptr<Allocator> allocator = allocator_of(kCpuDevice);
  allocator->empty_cache();
  const std::int64_t before = allocator->statistics().reserved;
  const auto now = [&] { return static_cast<double>(allocator->statistics().reserved - before); };
  Trainer trainer(session.context, session.precision, *session.model,
                  make_criterion(job.loss, job.data.outputs()),
                  {.optimizer = job.optimizer, .accumulate = job.train.accumulate});
  Loader loader(std::make_shared<Noise>(job),
                {.batch_size = job.train.batch_size, .workers = 1, .prefetch = job.data.prefetch});
  Reserved reserved;
  trainer.step(loader);
  reserved.step = now();
  run_validation(job, {case_of_file(validated)}, session, trainer, [&] {  // asked before each window
    reserved.validation = std::max(reserved.validation, now());
    return false;
  });
  reserved.after = now();
  return reserved;
}

void expect_within_a_quarter(const char* what, double foreseen, double taken) {
  EXPECT_GT(foreseen, taken / 1.25) << what;
  EXPECT_LT(foreseen, taken * 1.25) << what;
  std::printf("%s: foreseen %.1f MiB, taken %.1f MiB: %.3f\n", what, foreseen / (1 << 20), taken / (1 << 20),
              foreseen / taken);
}

class MemoryEstimate : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(MemoryEstimate, IsWithinAQuarterOfWhatAStepAndAValidationTake) {
  const testing::TempFolder folder;
  write_noise_case(folder / "case.h5");
  JobOptions job = demo_job(GetParam());
  job.log.report = false;
  const StepMemory memory = measure_step_memory(job, 1);
  const ValidationMemory validation =
      validation_memory(memory, job, {read_case_info(case_of_file(folder / "case.h5"))});
  const Reserved taken = reserved_by(job, folder / "case.h5");
  expect_within_a_quarter("step", memory.total(job.patch.size, job.train.batch_size), taken.step);
  expect_within_a_quarter("validation", validation.total() - validation.volumes, taken.validation);
  EXPECT_LT(taken.after, taken.validation - validation.forward / 2) << "a validation keeps its blocks";
}

INSTANTIATE_TEST_SUITE_P(
    Demo, MemoryEstimate,
    ::testing::Values(
        std::vector<std::string>{"precision.compute=fp32", "patch.size=[40, 40, 40]", "train.batch_size=1"},
        std::vector<std::string>{"precision.compute=fp16", "patch.size=[24, 40, 32]"},
        std::vector<std::string>{"precision.compute=bf16", "patch.size=[32, 24, 24]", "train.accumulate=2",
                                 "data.prefetch=4"},
        std::vector<std::string>{"data.regions={legs: [77, 78, 80, 81], hip: 77, back: [86, 87]}",
                                 "loss={name: dice_bce}", "patch.size=[32, 32, 40]"},
        std::vector<std::string>{"model.deep_supervision=true", "patch.size=[40, 32, 32]",
                                 "validate.mirror_tta=[z, x]"},
        std::vector<std::string>{"optimizer.ema={decay: 0.99}", "patch.size=[32, 32, 32]",
                                 "precision.compute=bf16"}));

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

// 100 MiB of weights and moments, 1 KiB a voxel of the forward pass.
StepMemory round_forward() { return {.weights = 100 * 1048576.0, .forward_per_voxel = 1024}; }
CaseInfo large_case(const std::string& file = "large.h5") {
  return {.file = file, .id = "large", .geometry = testing::plain_grid({512, 512, 512}), .has_labels = true};
}

TEST(ValidationFits, SaysWhatIsNeededWhatIsThereAndWhatWouldFit) {
  JobOptions job = demo_job({"patch.size=[128, 128, 128]", "data.cache=disk", "validate.metrics=[hd95]"});
  const auto refuse = [&](double gibibytes) {
    return error_of(ErrorKind::kResource, [&] {
      expect_validation_fits(round_forward(), job, {large_case("small.h5"), large_case()},
                             static_cast<std::int64_t>(gibibytes * kGiB));
    });
  };
  // 2 GiB of the window; sums of 64 * 640 lines of 512 voxels x (6 logits + 1 weight) and the window's
  // weights; 8 bytes a voxel of labels and 12 of distances.
  const std::string text = refuse(4.1);
  EXPECT_THAT(
      text,
      HasSubstr(
          "[memory] the validation of small.h5 [512, 512, 512]: got about 5.2 GiB (training state 100.0 "
          "MiB, network 2.0 GiB, sums 568.0 MiB, case and labels 2.5 GiB), expected at most the 4.1 "
          "GiB that this process may still take. Set patch.size=["));
  EXPECT_THAT(text, ContainsRegex("Set patch.size=.[89][0-9], [89][0-9], [89][0-9]. .about 3.[67] GiB., or"));
  EXPECT_THAT(text,
              HasSubstr(", or validate.metrics=[dice, iou] (about 3.7 GiB); or leave small.h5 out of the "
                        "validation and score it with `tandem eval`."));
  // Nothing brings it under 0.9 GiB.
  EXPECT_THAT(refuse(1), HasSubstr("may still take. Leave small.h5 out of the validation and score it with"));
}

TEST(ValidationFits, TheLargestCaseCounts) {
  const JobOptions job = demo_job({"data.cache=disk"});
  CaseInfo small = large_case("small.h5");
  small.geometry = testing::plain_grid({64, 64, 64});
  const ValidationMemory memory = validation_memory(round_forward(), job, {small, large_case(), small});
  EXPECT_EQ(memory.file, "large.h5");
  EXPECT_EQ(memory.volumes, 512.0 * 512 * 512 * 8);
  EXPECT_EQ(validation_memory(round_forward(), job, {}).total(), 0);
}

TEST(ValidationFits, CasesKeptReadWholeAndMirroredCountMore) {
  const CaseInfo info = large_case();
  const double voxels = 512.0 * 512 * 512;
  const auto memory = [&](const std::vector<std::string>& overrides, const CaseInfo& one) {
    return validation_memory(round_forward(), demo_job(overrides), {one});
  };
  const ValidationMemory plain = memory({"data.cache=disk"}, info);
  // Prepared as a whole: image, labels and what they are made into, twice; and the prepared case beside it.
  EXPECT_GE(memory({"data.cache=disk", "data.crop_nonzero=true"}, info).volumes, voxels * (16 + 2 * 5));
  EXPECT_GT(memory({"data.cache=disk", "data.spacing=[0.5, 1, 1]"}, info).volumes,
            memory({"data.cache=disk", "data.spacing=[2, 1, 1]"}, info).volumes + voxels * 5);
  EXPECT_GT(memory({"data.cache=disk", "data.spacing=[2, 1, 1]"}, info).sums, plain.sums);
  // NIfTI is held as it was read: labels and image.
  EXPECT_EQ(memory({"data.cache=disk"}, large_case("large.nii.gz")).volumes, plain.volumes + voxels * 8);
  EXPECT_EQ(memory({"data.cache=disk", "validate.mirror_tta=[x]"}, info).forward,
            plain.forward + 48.0 * 48 * 48 * 4);
}

TEST(ValidationFits, NearTheLimitItWarnsAndTries) {
  const JobOptions job = demo_job({"patch.size=[128, 128, 128]", "data.cache=disk"});
  ::testing::internal::CaptureStderr();
  expect_validation_fits(round_forward(), job, {large_case()}, static_cast<std::int64_t>(3.5 * kGiB));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the validation of large.h5"));
  expect_validation_fits(round_forward(), job, {large_case()}, static_cast<std::int64_t>(4 * kGiB));
}

}  // namespace
}  // namespace tandem
