// What the abort text of the loss scaler proposes, for every source of a fault, dtype and mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "optim/loss_scaler.h"

namespace tandem {
namespace {

using testing::ElementsAreArray;

// The keys of the remedies, in order, for one source of the last step's fault.
struct RemedyCase {
  DType compute;
  LossScaleMode mode;
  const char* events;
  ScalerDiagnosis diagnosis;
  std::vector<std::string> keys;
};

std::vector<std::string> remedy_keys(const RemedyCase& c) {
  const LossScaler scaler({.mode = c.mode,
                           .init = 64,
                           .min = c.mode == LossScaleMode::kDynamic ? 64.0 : 1,
                           .max_skips_at_min = 3,
                           .max_consecutive_skips = 5},
                          c.compute);
  StepState state = scaler.initial_state();
  std::string text;
  try {
    for (const char event : std::string(c.events)) {
      prepare_step(state, 0.01);
      state.event = event == 'O' ? StepEvent::kOverflow : StepEvent::kForward;
      scaler.update(state, [&] { return c.diagnosis; });
    }
  } catch (const Error& error) {
    text = error.hint();
  }
  std::vector<std::string> keys;
  for (std::size_t at = 0; (at = text.find(":    ", at)) != std::string::npos;) {
    at += 5;
    keys.push_back(text.substr(at, std::min(text.find('\n', at), text.size()) - at));
  }
  return keys;
}

// What is proposed can help: FP32 for a layer only where that is known, another format only where it holds
// the value, another scale only where gradients overflow.
TEST(LossScaler, RemediesFitTheSourceOfTheFault) {
  using S = NonfiniteSource;
  using M = LossScaleMode;
  const std::string lr = "optimizer.lr: 0.001", clip = "train.clip_norm: 12",
                    bf16 = "precision.compute: bf16", fp32 = "precision.compute: fp32",
                    off = "precision.loss_scale.mode: off", dynamic = "precision.loss_scale.mode: dynamic",
                    min = "precision.loss_scale.min: 1", layer = "precision.fp32_layers: [\"enc0\"]",
                    normalize = "data.normalize: [{channel: 0, kind: zscore}]",
                    check = "tandem data check JOB", gamma = "augment.gamma: null",
                    earlier = "--resume RUN/step-N.h5";
  const RemedyCase cases[] = {
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kData}, {check, normalize, gamma}},
      {DType::kF32, M::kOff, "FFFFF", {.source = S::kData}, {check, normalize, gamma}},
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kInput}, {normalize, bf16, fp32}},
      {DType::kBF16, M::kOff, "FFFFF", {.source = S::kInput}, {normalize, fp32}},
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kWeight}, {earlier, lr, clip}},
      {DType::kBF16, M::kOff, "OOOOO", {.source = S::kWeight}, {earlier, lr, clip}},
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kForward, .fp32_layer = "enc0"}, {layer, lr, bf16}},
      {DType::kF16,
       M::kDynamic,
       "FFFFF",
       {.source = S::kForward, .fp32_layer = "enc0", .reads_input = true},
       {layer, normalize, lr}},
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kForward}, {lr, bf16, fp32}},
      {DType::kBF16, M::kOff, "FFFFF", {.source = S::kForward, .fp32_layer = "enc0"}, {layer, lr, fp32}},
      {DType::kF16, M::kDynamic, "OOO", {.source = S::kBackward}, {min, lr, bf16}},
      {DType::kF16, M::kStatic, "OOOOO", {.source = S::kBackward}, {dynamic, lr, bf16}},
      {DType::kF16, M::kOff, "OOOOO", {.source = S::kBackward}, {dynamic, lr, bf16}},
      {DType::kBF16, M::kOff, "OOOOO", {.source = S::kBackward}, {lr, clip, fp32}},
      {DType::kBF16, M::kStatic, "OOOOO", {.source = S::kBackward}, {off, lr, clip}},
      {DType::kF32, M::kStatic, "OOOOO", {.source = S::kBackward}, {off, lr, clip}},
      {DType::kF16, M::kDynamic, "FFFFF", {.source = S::kAnyFormat}, {lr, clip, normalize}},
      {DType::kF32, M::kOff, "FFFFF", {.source = S::kAnyFormat}, {lr, clip, normalize}},
      {DType::kF16, M::kDynamic, "OOO", {}, {min, lr, bf16}},
      {DType::kF32, M::kOff, "OOOOO", {}, {lr, clip, normalize}},
      {DType::kF32,
       M::kOff,
       "OOOOO",
       {.base_lr = 0.002, .clip_norm = 5},
       {"optimizer.lr: 0.0002", "train.clip_norm: 0.5", normalize}},
  };
  int i = 0;
  for (const RemedyCase& c : cases) EXPECT_THAT(remedy_keys(c), ElementsAreArray(c.keys)) << "case " << i++;
}

}  // namespace
}  // namespace tandem
