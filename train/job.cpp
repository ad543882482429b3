// Descriptions of the job's own fields, and what the words of the file mean on this machine.
#include "train/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/cpu/isa.h"
#include "core/base/error.h"
#include "data/nnunet.h"
#include "data/segmentation_metrics.h"
#include "train/device_choice.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxSteps = 1'000'000'000;

}  // namespace

Fields fields(PrecisionOptions& o) {
  return Fields()
      .choice("compute", o.compute,
              {{"fp32", ComputeChoice::kFp32},
               {"bf16", ComputeChoice::kBf16},
               {"fp16", ComputeChoice::kFp16},
               {"auto", ComputeChoice::kAuto}},
              "Dtype of activations and of the weights' compute copies; auto: bf16 where the CPU computes it "
              "natively, else fp32")
      .texts("fp32_layers", o.fp32_layers, "Name patterns of layers that stay in FP32 (beats everything)")
      .texts("low_layers", o.low_layers,
             "Name patterns of layers that compute in the compute dtype, as every conv and linear layer does "
             "that fp32_layers does not name; no such layer: an error")
      .flag(
          "check_finite", o.check_finite,
          "Skip steps with a non-finite loss or gradient, in fp32 and bf16 too (false counts there only, and "
          "without a loss scale)")
      .choice("on_weight_overflow", o.on_weight_overflow, {"abort", "fp32_layer"},
              "When a weight does not fit the 16-bit format: end, or go on with its layer in FP32")
      .choice(
          "on_repeat_overflow", o.on_repeat_overflow, {"abort", "demote"},
          "When the loss scale reaches its limits: end, or go on with the layer that overflows first in FP32")
      .group("loss_scale", o.loss_scale, "Loss scaling");
}

Fields fields(EarlyStopOptions& o) {
  return Fields()
      .integer("patience", o.patience, {.min = 1, .max = 1'000'000},
               "Validations in a row without improvement of select.metric after which training ends",
               "validations")
      .number("min_delta", o.min_delta, {.min = 0, .max = 1e6}, "Smallest gain that is an improvement");
}

Fields fields(TrainOptions& o) {
  return Fields()
      .integer("batch_size", o.batch_size, {.min = 1, .max = 65536}, "Samples per micro-batch")
      .integer("iterations", o.iterations, {.min = 1, .max = kMaxSteps},
               "Optimizer steps attempted in all; or give epochs", "steps")
      .integer("epochs", o.epochs, {.min = 1, .max = kMaxSteps},
               "Epochs of iterations_per_epoch steps; or give iterations")
      .integer("iterations_per_epoch", o.iterations_per_epoch, {.min = 1, .max = kMaxSteps},
               "Length of an epoch of sampled patches", "steps")
      .integer("accumulate", o.accumulate, {.min = 1, .max = 65536}, "Micro-batches per optimizer step")
      .number("clip_norm", o.clip_norm, {.min = 0, .exclusive_min = true},
              "Largest global gradient norm, after unscaling; null: off")
      .number("clip_value", o.clip_value, {.min = 0, .exclusive_min = true},
              "Bound of each gradient, after unscaling and clip_norm; null: off")
      .group("early_stop", o.early_stop, "End when select.metric no longer improves; null: never")
      .number("max_minutes", o.max_minutes, {.min = 0, .max = 1e7, .exclusive_min = true},
              "End after this time of one process, with a checkpoint and a validation; null: never",
              "minutes")
      .check(
          [&o](ErrorList& errors) {
            if (o.iterations.has_value() == o.epochs.has_value())
              errors.rule("iterations", o.iterations
                                            ? "got both iterations and epochs, expected one of them"
                                            : "got neither iterations nor epochs, expected one of them");
          },
          {"iterations", "epochs"});
}

Fields fields(SelectOptions& o) {
  std::vector<std::string> metrics{"none"};
  for (const MetricRow& row : metric_table()) metrics.emplace_back(row.name);
  return Fields()
      .choice("metric", o.metric, std::move(metrics),
              "Validation metric whose best checkpoint is kept; none: the last checkpoint is the result")
      .choice("mode", o.mode, {{"max", MetricMode::kMax}, {"min", MetricMode::kMin}},
              "Whether more or less of it is better")
      .check(
          [&o](ErrorList& errors) {
            for (const MetricRow& row : metric_table())
              if (row.name == o.metric && row.unit == "mm" && o.mode == MetricMode::kMax)
                errors.rule("mode", fmt::format("got max with {}, a distance, expected min", o.metric));
          },
          {"metric", "mode"});
}

namespace {

// Regions may overlap, so each is a channel of its own.
struct RegionFault {
  std::string key, text;
};
std::optional<RegionFault> region_fault(const JobOptions& o) {
  if (o.data.regions.empty()) return std::nullopt;
  if (loss_parts(o.loss).pointwise == LossParts::Pointwise::kError ||
      loss_activation(o.loss) == LossActivation::kSoftmax)
    return RegionFault{"loss.name",
                       fmt::format("got {} with data.regions, expected dice_bce or bce, or dice, tversky, "
                                   "focal or dice_focal with loss.activation: sigmoid",
                                   o.loss.name)};
  if (needs_class_counts(o.loss))
    return RegionFault{"loss.focal.class_weights", "got a rule with data.regions, expected null or a list"};
  return std::nullopt;
}

void check_name(const JobOptions& o, ErrorList& errors) {
  constexpr const char* kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (o.name.empty() || o.name.find_first_not_of(kAllowed) != std::string::npos)
    errors.rule("name",
                "got '" + o.name + "', expected letters, digits, '.', '_' or '-': it names the run folder");
}

// Rules between select, validate and what watches the metric.
void check_selection(const JobOptions& o, ErrorList& errors) {
  for (const MetricRow& row : metric_table())
    if (row.name == o.select.metric && !row.is_overlap &&
        std::ranges::find(o.validate.metrics, row.name) == o.validate.metrics.end())
      errors.rule("select.metric", fmt::format("got {}, expected a metric of validate.metrics", row.name));
  const bool validates = o.select.metric != "none" && (!o.data.validation.empty() || o.data.split.active()) &&
                         o.validate.every > 0;
  constexpr std::string_view kNeeds =
      "expected select.metric, data.validation and validate.every to be set: it watches that metric";
  if (o.train.early_stop && !validates)
    errors.rule("train.early_stop", fmt::format("got a patience, {}", kNeeds));
  if (o.schedule.name == ScheduleKind::kPlateau && !validates)
    errors.rule("schedule.name", fmt::format("got plateau, {}", kNeeds));
}

}  // namespace

Fields fields(CheckpointOptions& o) {
  return Fields()
      .integer("every", o.every, {.min = 1, .max = kMaxSteps}, "Save each so many steps, and at the end",
               "steps")
      .integer("keep_last", o.keep_last, {.min = 1, .max = 10000}, "Newest checkpoints kept")
      .integer("keep_best", o.keep_best, {.min = 0, .max = 10000}, "Best checkpoints kept, by select.metric")
      .flag("verify", o.verify, "Read a checkpoint back before older ones are deleted");
}

Fields fields(LogOptions& o) {
  return Fields()
      .integer("every", o.every, {.min = 1, .max = kMaxSteps},
               "Steps between two lines of metrics.jsonl; skipped steps are always logged", "steps")
      .flag("tensorboard", o.tensorboard, "Write TensorBoard event files into the run folder")
      .flag("report", o.report,
            "Write report.html (and validation/, its cases and slices) after each validation and at the end");
}

Fields fields(JobOptions& o) {
  return Fields()
      .text("name", o.name, "Name of the job; run folders are runs/<name>-NNN")
      .choice("task", o.task, {"segmentation"}, "What is learnt")
      .integer("seed", o.seed, {.min = 0, .max = std::int64_t{1} << 53},
               "Seed of weights, patches and augmentation")
      .flag("deterministic", o.deterministic, "Fixed reduction order (the CPU backend always has one)")
      .text("device", o.device, "auto, cpu, cuda or cuda:N")
      .integer_or_auto("threads", o.threads, {.min = 1, .max = 4096},
                       "Compute threads; auto: all usable cores")
      .group("precision", o.precision, "Mixed precision")
      .group("data", o.data, "Training and validation data")
      .group("augment", o.augment, "Random changes of training samples")
      .group("model", o.model, "The network")
      .group("patch", o.patch, "Training patches")
      .group("loss", o.loss, "The loss")
      .group("optimizer", o.optimizer, "The optimizer")
      .group("schedule", o.schedule, "Learning rate over applied steps")
      .group("train", o.train, "The training loop")
      .group("validate", o.validate, "Validation during training, and `tandem eval`")
      .group("predict", o.predict, "`tandem predict`")
      .group("select", o.select, "Choice of the best checkpoint")
      .group("checkpoint", o.checkpoint, "Checkpoints")
      .group("log", o.log, "Logging")
      .check([&o](ErrorList& errors) { check_name(o, errors); }, {"name"})
      .check(
          [&o](ErrorList& errors) {
            if (!is_device_name(o.device))
              errors.rule("device", "got '" + o.device + "', expected auto, cpu, cuda or cuda:N");
          },
          {"device"})
      .check([&o](ErrorList& errors) { check_selection(o, errors); },
             {"select", "validate.metrics", "validate.every", "data.validation", "data.split",
              "train.early_stop", "schedule.name"})
      .check(
          [&o](ErrorList& errors) {
            if (const auto fault = region_fault(o)) errors.rule(fault->key, fault->text);
          },
          {"data.regions", "loss"});
}

void read_job(const ConfigNode& root, JobOptions& job, ErrorList& errors) {
  parse_options(root, fields(job), errors);
  if (!errors.empty()) return;
  const bool has_regions = !job.data.regions.empty();
  const ErrorList::Scope scope(errors, "", &root);
  const std::size_t entries = job.data.train.size();
  if (job.data.format == "nnunet" && job.data.labels.empty() && entries != 1)
    return errors.rule("data.train",
                       fmt::format("got {} entries with data.format: nnunet, expected one folder", entries));
  complete_from_nnunet(job.data);
  if (const auto fault = region_fault(job); fault && !has_regions)
    errors.rule(fault->key, fault->text, "the regions are those of the data set's dataset.json");
}

JobOptions load_job(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const ConfigNode root = load_config(path, overrides);
  JobOptions job;
  ErrorList errors;
  read_job(root, job, errors);
  errors.throw_if_any();
  return job;
}

DType compute_dtype(ComputeChoice choice) {
  switch (choice) {
    case ComputeChoice::kFp32:
      return DType::kF32;
    case ComputeChoice::kBf16:
      return DType::kBF16;
    case ComputeChoice::kFp16:
      return DType::kF16;
    case ComputeChoice::kAuto:
      break;
  }
  return cpu_target().isa == CpuIsa::kAmx ? DType::kBF16 : DType::kF32;
}

Precision precision_of(const PrecisionOptions& options) {
  return {compute_dtype(options.compute), options.fp32_layers, options.low_layers};
}

}  // namespace tandem
