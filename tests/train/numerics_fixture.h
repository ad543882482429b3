// A small unet3d under training for tests of numerics: an infinity can be planted into any tensor of its
// steps, its weights scaled, its loss made as large as wanted.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/rng.h"
#include "core/ops/loss.h"
#include "layers/models/unet3d.h"
#include "train/criterion.h"
#include "train/trainer.h"

namespace tandem::tests {

inline constexpr std::int64_t kEdge = 8;
inline constexpr double kInf = std::numeric_limits<double>::infinity();

class Noise final : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  Sample get(std::int64_t index, const Draw& draw) const override {
    RandomStream stream(draw.seed, RandomPurpose::kSynthetic, draw.epoch, draw.sample);
    Sample sample;
    sample.image = Tensor(Shape{1, 1, kEdge, kEdge, kEdge}, DType::kF32);
    sample.label = Tensor(Shape{1, 1, kEdge, kEdge, kEdge}, DType::kI32);
    for (std::int64_t i = 0; i < kEdge * kEdge * kEdge; ++i) {
      sample.image.data<float>()[i] = static_cast<float>(stream.normal());
      sample.label.data<std::int32_t>()[i] = i % 2 == 0;
    }
    sample.id = "case" + std::to_string(index);
    return sample;
  }
};

// A tensor of a step as the observers see it.
struct Seen {
  bool in_backward = false;
  std::string layer, op;
  bool is_leaf = false;
  Shape shape;
  Tensor tensor;
};

// Counts the tensors of a micro-batch, and writes an infinity into the wanted one, each time it comes by.
struct Planter {
  int target = -1;  // number of the tensor in the order of execution
  double value = kInf;
  std::optional<double> only_image;  // first voxel of the micro-batch that is meant; absent: each
  int at = 0;
  double image = 0;  // first voxel of the micro-batch in work
  std::vector<Seen> seen;

  void start(const Tensor& first) { at = 0, image = first.to_values().front(), seen.clear(); }
  void look(Seen tensor) {
    if (at++ == target && image == only_image.value_or(image)) plant(tensor.tensor);
    seen.push_back(std::move(tensor));
  }
  void plant(const Tensor& t) const {
    const std::int64_t last = (t.rows() - 1) * t.channel_pitch() + t.channels() - 1;
    if (t.dtype() == DType::kF16)
      t.data<Half>()[last] = to_half(static_cast<float>(value));
    else
      t.data<float>()[last] = static_cast<float>(value);
  }
};

struct Net {
  Planter planter;
  double loss_weight = 1;
  std::unique_ptr<Module> model;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Loader> loader;

  explicit Net(LossScaleOptions scale = {}, DType compute = DType::kF16, std::int64_t accumulate = 1,
               const UNet3dOptions& network = {.features = {4, 8}},
               const std::vector<std::string>& fp32_layers = {}) {
    TrainerOptions options{.optimizer = {.name = OptimizerKind::kSgd, .lr = 1e-3}, .loss_scale = scale};
    options.total_steps = 100;
    options.accumulate = accumulate;
    options.observe_ops = [this](std::string_view op, const std::string& layer, const Tensor& value) {
      // The first op of a pass starts the count again: passes are repeated for diagnosis.
      if (op == "cast" && layer.empty()) planter.start(value);
      planter.look({false, layer, std::string(op), false, value.shape(), value});
    };
    options.observe_gradients = [this](const GradientEvent& e) {
      planter.look({true, e.module, std::string(e.op), e.is_leaf, e.gradient.shape(), e.gradient});
    };
    model = std::make_unique<UNet3d>(network, 1, 2);
    Criterion criterion = [this](const Outputs& outputs, const Target& target) {
      return dice_ce(outputs.main, target.label, {.ce_weight = loss_weight});
    };
    if (network.deep_supervision) criterion = make_criterion(LossOptions{}, 2);
    trainer = std::make_unique<Trainer>(Context{.compute = compute, .seed = 5},
                                        Precision{.compute = compute, .fp32_layers = fp32_layers}, *model,
                                        criterion, options);
    loader = std::make_unique<Loader>(std::make_shared<Noise>(),
                                      LoaderOptions{.batch_size = 2, .seed = 9, .shuffle = false});
  }
  StepReport step() { return trainer->step(*loader); }

  // Multiplies the first element of the weight `name`, or all of them.
  void scale_weight(const std::string& name, float factor, bool all = true) {
    for (const NamedParameter& p : model->parameters()) {
      if (p.name != name) continue;
      const Tensor& master = p.parameter->master();
      for (std::int64_t i = 0; i < (all ? master.numel() : 1); ++i) master.data<float>()[i] *= factor;
    }
    trainer->params().refresh_copies();
  }

  // Steps until the run is given up: the text, and how many steps that took.
  std::string text_of_abort(int* steps = nullptr) {
    for (int i = 1; i <= 100; ++i) {
      try {
        step();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
        if (steps != nullptr) *steps = i;
        return error.what();
      }
    }
    ADD_FAILURE() << "the run goes on";
    return "";
  }
};

}  // namespace tandem::tests
