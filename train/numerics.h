// Where a training step went wrong: the first value that is not finite, found by running the step's batches a
// second time under observation. The step itself pays nothing for it; the scaler's rules are
// optim/loss_scaler's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/params/param_store.h"
#include "data/loader.h"
#include "optim/loss_scaler.h"

namespace tandem {

class JsonObject;

// The first non-finite value of a step in order of execution.
struct NonfiniteCause {
  bool in_backward = false;
  std::string layer;      // dotted path of the module, "enc0.conv1"; empty outside of modules (image, loss)
  std::string place;      // where layer is empty in a forward pass: "the input image", "after layer head0"
  bool is_input = false;  // the image itself, or what it is in the compute dtype
  bool reads_input = false;  // layer is the first one of the pass
  // A forward value that stays finite, also in what follows, when its layer computes in FP32: tried.
  bool fp32_cures = false;
  std::string op;  // "conv", "instance_norm", "dice_ce"; "data" for the batch itself
  std::string
      tensor;  // "image", "output", "input gradient", "enc0.conv1.weight", "gradient of enc0.conv1.weight"
  std::vector<std::int64_t> index;  // logical (n, c, d, h, w); of a weight k, c, taps
  double value = 0;                 // inf, -inf or NaN
  // |x| at this index without 16-bit rounding: forward in FP32 with the master weights, backward from a
  // smaller seed. Infinite or NaN if the value is not finite then either, so that no loss scale is at fault.
  double magnitude = 0;
  std::vector<std::string> samples;  // ids: the one of the index where it names one, else those of the batch
};

// "forward, layer enc0.conv1, op conv, output at [0, 3, 1, 2, 2] = inf (|x| = 7.1e4 without rounding),
// samples case1": one line.
std::string to_text(const NonfiniteCause& cause);
// The members "pass", "layer", "place" (where there is one), "op", "tensor", "index", "value", "magnitude",
// "samples".
JsonObject to_json(const NonfiniteCause& cause);

NonfiniteSource source_of(const NonfiniteCause& cause);

// How one micro-batch is to be run again.
struct ReplayRequest {
  bool wide = false;        // forward in FP32 with the masters, no backward
  std::string fp32_weight;  // this parameter's layer computes in FP32, no backward
  double seed_factor = 1;   // on the seed of backward, a power of two
  OpObserver ops;
  GradientObserver gradients;
};
// Runs forward and backward as the step did, but for the request; gradients are added to zeroed buffers.
using Replay = std::function<void(const Batch& batch, const ReplayRequest& request)>;

// Runs `batches` again until the first value that is not finite. Nothing when all are finite this time: then
// the sum over the micro-batches or the norm overflowed, or the machine erred. Gradients in `params` are
// overwritten; nothing else is changed. At most three forward and two backward passes more than a step.
std::optional<NonfiniteCause> find_nonfinite(std::span<const Batch> batches, ParamStore& params,
                                             const Replay& replay);

}  // namespace tandem
