// The training step: what a skipped step leaves alone, what a checkpoint must hold, what the precisions
// share.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/ops/loss.h"
#include "layers/models/unet3d.h"
#include "tests/train/bright_voxels.h"
#include "train/evaluate.h"

namespace tandem {
namespace {

using testing::BrightVoxels;

struct Fixture {
  std::unique_ptr<Module> model;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Loader> loader;
};

// `ce_weight` scales the loss: a large one overflows FP16 gradients.
Criterion weighted(const double& ce_weight) {
  return [&ce_weight](const Outputs& outputs, const Target& target) {
    return dice_ce(outputs.main, target.label, {.ce_weight = ce_weight});
  };
}

Fixture make(DType compute, const Criterion& criterion, TrainerOptions options, std::int64_t first_batch = 0,
             std::int64_t workers = 0) {
  Fixture f;
  f.model = std::make_unique<UNet3d>(UNet3dOptions{.features = {4, 8}}, 1, 2);
  const Context context{.compute = compute, .seed = 5};
  f.trainer = std::make_unique<Trainer>(context, Precision{.compute = compute}, *f.model, criterion, options);
  f.loader = std::make_unique<Loader>(
      std::make_shared<BrightVoxels>(),
      LoaderOptions{.batch_size = 2, .seed = 9, .first_batch = first_batch, .workers = workers});
  return f;
}

TrainerOptions adam(std::int64_t accumulate = 1) {
  return {.optimizer = {.name = OptimizerKind::kAdamW, .lr = 1e-2, .weight_decay = 1e-2},
          .schedule = {.name = ScheduleKind::kPoly, .warmup = 2},
          .total_steps = 20,
          .accumulate = accumulate,
          .clip_norm = 12};
}

CheckpointContent content_of(const Trainer& trainer) {
  CheckpointContent content;
  trainer.save(content);
  for (NamedTensor& tensor : content.tensors) tensor.tensor = tensor.tensor.clone();
  return content;
}

// The compute copies are not in a checkpoint.
std::vector<double> copies_of(Trainer& trainer) {
  return trainer.params().region(ParamRegion::kCast).copy.to_values();
}

TEST(Trainer, OverflowSkipChangesNothingButTheScaler) {
  double ce_weight = 1;
  Fixture f = make(DType::kF16, weighted(ce_weight), adam());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(f.trainer->step(*f.loader).event, StepEvent::kGood);
  const CheckpointContent before = content_of(*f.trainer);
  const std::vector<double> copies = copies_of(*f.trainer);

  ce_weight = 1e5;
  const StepReport report = f.trainer->step(*f.loader);
  EXPECT_EQ(report.event, StepEvent::kOverflow);
  EXPECT_TRUE(std::isfinite(report.loss));
  EXPECT_TRUE(std::isnan(report.grad_norm));
  CheckpointContent after = content_of(*f.trainer);
  EXPECT_EQ(after.state.scale, before.state.scale / 2);
  EXPECT_EQ(after.state.applied, 3);
  EXPECT_EQ(after.state.attempted, 4);
  EXPECT_EQ(after.state.skipped_overflow, 1);
  EXPECT_EQ(copies_of(*f.trainer), copies);
  after.state = before.state;
  const auto difference = diff_checkpoints(before, after);
  EXPECT_FALSE(difference.has_value()) << difference->name << " " << difference->text;

  ce_weight = 1;
  EXPECT_EQ(f.trainer->step(*f.loader).lr, report.lr) << "the schedule counts applied steps";
}

TEST(Trainer, NonfiniteLossKeepsScaleAndWeights) {
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    double ce_weight = 1;
    Fixture f = make(compute, weighted(ce_weight), adam());
    f.trainer->step(*f.loader);
    const CheckpointContent before = content_of(*f.trainer);
    ce_weight = std::numeric_limits<double>::infinity();
    EXPECT_EQ(f.trainer->step(*f.loader).event, StepEvent::kForward) << name(compute);
    CheckpointContent after = content_of(*f.trainer);
    EXPECT_EQ(after.state.scale, before.state.scale);
    EXPECT_EQ(after.state.skipped_forward, 1);
    after.state = before.state;
    EXPECT_FALSE(diff_checkpoints(before, after).has_value()) << name(compute);
  }
}

// check_finite: false holds in FP32 and BF16 without a loss scale only.
TEST(Trainer, Fp16AndScaledStepsAreAlwaysChecked) {
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    double ce_weight = std::numeric_limits<double>::infinity();
    TrainerOptions options = adam();
    options.check_finite = false;
    Fixture f = make(compute, weighted(ce_weight), options);
    const StepEvent expected = compute == DType::kF16 ? StepEvent::kForward : StepEvent::kGood;
    if (compute == DType::kF16) {
      EXPECT_EQ(f.trainer->step(*f.loader).event, expected);
      EXPECT_EQ(f.trainer->params().first_nonfinite(), "");
    } else {
      EXPECT_EQ(f.trainer->step(*f.loader).event, expected) << name(compute);
    }
    options.loss_scale.mode = LossScaleMode::kStatic;
    Fixture scaled = make(compute, weighted(ce_weight), options);
    EXPECT_EQ(scaled.trainer->step(*scaled.loader).event, StepEvent::kForward) << name(compute);
  }
}

TEST(Trainer, GivesUpAfterFiveNonfiniteLosses) {
  const double ce_weight = std::numeric_limits<double>::quiet_NaN();
  Fixture f = make(DType::kF16, weighted(ce_weight), adam());
  for (int i = 0; i < 4; ++i) f.trainer->step(*f.loader);
  try {
    f.trainer->step(*f.loader);
    FAIL() << "expected Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_EQ(exit_code(error.kind()), 5);
  }
  EXPECT_EQ(f.trainer->state().scale, 65536) << "the scale is not at fault";
}

TEST(Trainer, ResumedRunHasTheSameBits) {
  struct Case {
    DType compute;
    std::int64_t accumulate, workers;
  };
  for (const Case& c : {Case{DType::kF16, 1, 2}, Case{DType::kF16, 2, 0}, Case{DType::kF32, 2, 1},
                        Case{DType::kBF16, 1, 4}}) {
    const double ce_weight = 1;
    Fixture whole = make(c.compute, weighted(ce_weight), adam(c.accumulate));
    for (int i = 0; i < 7; ++i) whole.trainer->step(*whole.loader);

    Fixture first = make(c.compute, weighted(ce_weight), adam(c.accumulate));
    for (int i = 0; i < 3; ++i) first.trainer->step(*first.loader);
    const CheckpointContent saved = content_of(*first.trainer);
    Fixture second = make(c.compute, weighted(ce_weight), adam(c.accumulate), 3 * c.accumulate, c.workers);
    second.trainer->load(saved);
    for (int i = 0; i < 4; ++i) second.trainer->step(*second.loader);

    const auto difference = diff_checkpoints(content_of(*whole.trainer), content_of(*second.trainer));
    EXPECT_FALSE(difference.has_value())
        << name(c.compute) << " " << difference->name << ": " << difference->text;
    EXPECT_EQ(copies_of(*whole.trainer), copies_of(*second.trainer));
  }
}

// Running statistics and the draws of dropout belong to the step: a skipped one moves neither buffers nor
// weights, and a resumed run has the bits of one that was not stopped.
TEST(Trainer, BatchNormAndDropoutFollowTheStep) {
  double ce_weight = 1;
  const auto start = [&](std::int64_t first_batch) {
    Fixture f = make(DType::kF16, weighted(ce_weight), adam(2), first_batch);
    f.model =
        std::make_unique<UNet3d>(UNet3dOptions{.features = {4, 8}, .norm = "batch", .dropout = 0.2}, 1, 2);
    f.trainer =
        std::make_unique<Trainer>(Context{.compute = DType::kF16, .seed = 5},
                                  Precision{.compute = DType::kF16}, *f.model, weighted(ce_weight), adam(2));
    return f;
  };
  Fixture whole = start(0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(whole.trainer->step(*whole.loader).event, StepEvent::kGood);
  CheckpointContent middle = content_of(*whole.trainer);
  EXPECT_EQ(middle.find("buffer/enc0.norm1.num_batches_tracked")->to_values(), std::vector<double>{4});

  ce_weight = 1e5;
  EXPECT_EQ(whole.trainer->step(*whole.loader).event, StepEvent::kOverflow);
  CheckpointContent skipped = content_of(*whole.trainer);
  const StepState after_skip = skipped.state;
  skipped.state = middle.state;
  const auto moved = diff_checkpoints(middle, skipped);
  EXPECT_FALSE(moved.has_value()) << moved->name << " " << moved->text;

  ce_weight = 1;
  for (int i = 0; i < 2; ++i) whole.trainer->step(*whole.loader);
  Fixture resumed = start(6);
  skipped.state = after_skip;
  resumed.trainer->load(skipped);
  for (int i = 0; i < 2; ++i) resumed.trainer->step(*resumed.loader);
  const auto difference = diff_checkpoints(content_of(*whole.trainer), content_of(*resumed.trainer));
  EXPECT_FALSE(difference.has_value()) << difference->name << " " << difference->text;
}

// The options beside those of adam(): each with what it must find in a checkpoint.
TrainerOptions variant(const std::string& what) {
  TrainerOptions o = adam();
  if (what == "rmsprop")
    o.optimizer = {
        .name = OptimizerKind::kRmsProp, .lr = 1e-3, .momentum = 0.8, .rho = 0.9, .centered = true};
  if (what == "sgd groups")
    o.optimizer = {.name = OptimizerKind::kSgd,
                   .lr = 1e-2,
                   .momentum = 0.9,
                   .groups = {{.match = "*.bias", .weight_decay = 0}, {.match = "head*", .lr_factor = 3}}};
  if (what == "ema") o.optimizer.ema = EmaOptions{.decay = 0.9};
  if (what == "clip_value") o.clip_value = 1e-3;
  if (what == "plateau") o.schedule = {.name = ScheduleKind::kPlateau, .factor = 0.5, .patience = 0};
  if (what == "onecycle") o.schedule = {.name = ScheduleKind::kOneCycle};
  return o;
}

TEST(Trainer, EveryOptionResumesWithTheSameBits) {
  const double ce_weight = 1;
  for (const char* what : {"rmsprop", "sgd groups", "ema", "clip_value", "plateau", "onecycle"}) {
    const auto run = [](Fixture& f, int from, int to) {
      for (int i = from; i < to; ++i) {
        f.trainer->step(*f.loader);
        f.trainer->note_metric(i + 1, 0.5, MetricMode::kMax);  // never better: plateau falls each time
      }
    };
    Fixture whole = make(DType::kF16, weighted(ce_weight), variant(what));
    run(whole, 0, 6);
    Fixture first = make(DType::kF16, weighted(ce_weight), variant(what));
    run(first, 0, 3);
    Fixture second = make(DType::kF16, weighted(ce_weight), variant(what), 3);
    second.trainer->load(content_of(*first.trainer));
    run(second, 3, 6);
    const auto difference = diff_checkpoints(content_of(*whole.trainer), content_of(*second.trainer));
    EXPECT_FALSE(difference.has_value()) << what << " " << difference->name << ": " << difference->text;
    // The option does something: without it the weights are others.
    Fixture plain = make(DType::kF16, weighted(ce_weight), adam());
    run(plain, 0, 6);
    EXPECT_TRUE(diff_checkpoints(content_of(*whole.trainer), content_of(*plain.trainer)).has_value()) << what;
  }
}

TEST(Trainer, MeanWeightsStandInAndGiveWay) {
  const double ce_weight = 1;
  Fixture f = make(DType::kF16, weighted(ce_weight), variant("ema"));
  for (int i = 0; i < 3; ++i) f.trainer->step(*f.loader);
  const CheckpointContent before = content_of(*f.trainer);
  const std::vector<double> copies = copies_of(*f.trainer);
  const Tensor& mean = *before.find("ema/enc0.conv1.weight");
  f.trainer->with_mean_weights([&] {
    const CheckpointContent inside = content_of(*f.trainer);
    EXPECT_EQ(inside.find("model/enc0.conv1.weight")->to_values(), mean.to_values());
    EXPECT_NE(copies_of(*f.trainer), copies);
  });
  EXPECT_FALSE(diff_checkpoints(before, content_of(*f.trainer)).has_value());
  EXPECT_EQ(copies_of(*f.trainer), copies);
  EXPECT_THROW(f.trainer->with_mean_weights([] { fail(ErrorKind::kStopped, "stopped"); }), Error);
  EXPECT_FALSE(diff_checkpoints(before, content_of(*f.trainer)).has_value());
  EXPECT_EQ(copies_of(*f.trainer), copies);
}

// A run that gets ema when it is resumed starts it at the saved weights.
TEST(Trainer, MeanWeightsMayBeginAtAResume) {
  const double ce_weight = 1;
  Fixture first = make(DType::kF32, weighted(ce_weight), adam());
  first.trainer->step(*first.loader);
  Fixture second = make(DType::kF32, weighted(ce_weight), variant("ema"), 1);
  second.trainer->load(content_of(*first.trainer));
  const CheckpointContent content = content_of(*second.trainer);
  EXPECT_EQ(content.find("ema/head0.weight")->to_values(), content.find("model/head0.weight")->to_values());
  second.trainer->step(*second.loader);
  EXPECT_NE(content_of(*second.trainer).find("ema/head0.weight")->to_values(),
            content_of(*second.trainer).find("model/head0.weight")->to_values());
}

TEST(Trainer, LoadRefusesAnotherModelAndChangesNothing) {
  const double ce_weight = 1;
  Fixture f = make(DType::kF32, weighted(ce_weight), adam());
  const CheckpointContent before = content_of(*f.trainer);
  CheckpointContent wrong = content_of(*f.trainer);
  wrong.tensors.front().tensor = Tensor::zeros(Shape{3, 3}, DType::kF32);
  EXPECT_THROW(f.trainer->load(wrong), Error);
  EXPECT_FALSE(diff_checkpoints(before, content_of(*f.trainer)).has_value());
}

TEST(Trainer, AStopInsideAStepLeavesItUndone) {
  const double ce_weight = 1;
  TrainerOptions options = adam(4);
  int asked = 0;
  options.stop_requested = [&asked] { return ++asked == 2; };
  Fixture f = make(DType::kF16, weighted(ce_weight), options);
  const CheckpointContent before = content_of(*f.trainer);
  try {
    f.trainer->step(*f.loader);
    FAIL() << "expected Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStopped);
  }
  EXPECT_EQ(asked, 2) << "after two of four micro-batches";
  EXPECT_EQ(f.trainer->state().attempted, 0);
  CheckpointContent after = content_of(*f.trainer);
  after.state = before.state;
  EXPECT_FALSE(diff_checkpoints(before, after).has_value());
}

TEST(Trainer, PrecisionsLearnTheSameTask) {
  double last[3];
  const DType computes[] = {DType::kF32, DType::kBF16, DType::kF16};
  for (int k = 0; k < 3; ++k) {
    const double ce_weight = 1;
    Fixture f = make(computes[k], weighted(ce_weight), adam());
    const double start = f.trainer->step(*f.loader).loss;
    for (int i = 0; i < 18; ++i) f.trainer->step(*f.loader);
    last[k] = f.trainer->step(*f.loader).loss;
    EXPECT_LT(last[k], start - 0.2) << name(computes[k]);
  }
  EXPECT_NEAR(last[1], last[0], 0.05);
  EXPECT_NEAR(last[2], last[0], 0.01);
}

TEST(Trainer, AccumulationSeedsEachMicroBatchWithItsShare) {
  const double ce_weight = 1;
  TrainerOptions options = adam(2);
  options.clip_norm = 0;
  Fixture two = make(DType::kF32, weighted(ce_weight), options);
  const StepReport report = two.trainer->step(*two.loader);
  // The same two batches one by one, from the same weights, without an update in between.
  options = adam(1);
  options.clip_norm = 0;
  options.optimizer.lr = 1e-30;
  options.optimizer.weight_decay = 0;
  Fixture one = make(DType::kF32, weighted(ce_weight), options);
  const StepReport a = one.trainer->step(*one.loader), b = one.trainer->step(*one.loader);
  EXPECT_NEAR(report.loss, (a.loss + b.loss) / 2, 1e-6);
  EXPECT_LE(report.grad_norm, (a.grad_norm + b.grad_norm) / 2 * (1 + 1e-5));
  EXPECT_GT(report.grad_norm, 0);

  // Equal micro-batches: the gradient of each, whatever their number; one left out or overwritten would show.
  class SameVoxels final : public Dataset {
   public:
    std::int64_t size() const override { return 1; }
    Sample get(std::int64_t index, const Draw&) const override {
      return BrightVoxels().get(index, {.seed = 3, .epoch = 0, .sample = 1});
    }
  };
  double norms[3];
  for (int accumulate = 1; accumulate <= 3; ++accumulate) {
    TrainerOptions same = adam(accumulate);
    same.clip_norm = 0;
    Fixture f = make(DType::kF32, weighted(ce_weight), same);
    Loader loader(std::make_shared<SameVoxels>(), {.batch_size = 2, .seed = 9});
    norms[accumulate - 1] = f.trainer->step(loader).grad_norm;
  }
  EXPECT_NEAR(norms[1], norms[0], 1e-6 * norms[0]);
  EXPECT_NEAR(norms[2], norms[0], 1e-6 * norms[0]);
}

// amp.md C19: a forward pass without gradients between a step's own forward and backward passes leaves no
// copy of the weights behind that would cut their gradients off, moves no statistics and draws no dropout.
TEST(Trainer, AValidationInsideAStepChangesNoGradient) {
  for (const DType compute : {DType::kF16, DType::kBF16, DType::kF32}) {
    std::vector<double> gradients[2];
    CheckpointContent after[2];
    for (const bool validates : {false, true}) {
      UNet3d model(UNet3dOptions{.features = {4, 8}, .norm = "batch", .dropout = 0.2}, 1, 2);
      const Context context{.compute = compute, .seed = 5};
      const Tensor other = BrightVoxels().get(0, {.seed = 77}).image;
      const Criterion criterion = [&](const Outputs& outputs, const Target& target) {
        if (validates) patch_model(context, model)(other);
        return dice_ce(outputs.main, target.label, {});
      };
      Trainer trainer(context, Precision{.compute = compute}, model, criterion, adam(2));
      Loader loader(std::make_shared<BrightVoxels>(), {.batch_size = 2, .seed = 9, .workers = 0});
      for (int i = 0; i < 3; ++i) ASSERT_EQ(trainer.step(loader).event, StepEvent::kGood);
      for (const ParamSegment& segment : trainer.params().segments()) {
        const Tensor& flat = trainer.params().region(segment.region).gradient;
        const std::vector<double> values = ParamStore::view(segment, flat).to_values();
        EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double g) { return g != 0; }))
            << segment.name;
        gradients[validates].insert(gradients[validates].end(), values.begin(), values.end());
      }
      after[validates] = content_of(trainer);
    }
    EXPECT_EQ(gradients[0], gradients[1]) << name(compute);
    EXPECT_FALSE(diff_checkpoints(after[0], after[1]).has_value()) << name(compute);
  }
}

}  // namespace
}  // namespace tandem
