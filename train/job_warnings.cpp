// Which keys count for nothing beside which others.
#include "train/job_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tandem {
namespace {

class Warnings {
 public:
  Warnings(const JobOptions& job, ErrorList& list) : job_(job), list_(list) {}
  void collect() {
    selection();
    mirrors();
    schedule();
    watching();
    loss_scale();
    precision();
    data();
    augmentation();
    model_and_patch();
  }

 private:
  void selection();
  void mirrors();
  void schedule();
  void watching();
  void loss_scale();
  void precision();
  void data();
  void augmentation();
  void model_and_patch();

  // `key` was written, and not made void by a later `cause`.
  bool is_meant(const std::string& key, const std::string& cause) const {
    const auto place = list_.written_at(key);
    if (!place) return false;
    const auto later = cause.empty() ? std::nullopt : list_.written_at(cause);
    return !later || later->rank() <= place->rank();
  }
  void without_effect(const std::string& key, std::string_view remedy, const std::string& cause = "") {
    if (is_meant(key, cause)) list_.rule(key, fmt::format("has no effect: {}", remedy));
  }

  const JobOptions& job_;
  ErrorList& list_;
};

void Warnings::selection() {
  const bool validates = !job_.data.validation.empty() || job_.data.split.active();
  const bool selects = job_.select.metric != "none";
  if (selects && !validates)
    without_effect("select.metric", "there is no validation; give data.validation or data.split");
  if (!selects && job_.select.mode != SelectOptions().mode)
    without_effect("select.mode", "no metric is watched; set select.metric", "select.metric");
  if (!selects && job_.checkpoint.keep_best > 0 && job_.checkpoint.keep_best != CheckpointOptions().keep_best)
    without_effect("checkpoint.keep_best", "no metric says what is best; set select.metric", "select.metric");
  if (!validates && job_.validate.every > 0 && job_.validate.every != ValidateOptions().every)
    without_effect("validate.every", "there is no validation; give data.validation or data.split");
  const auto& metrics = job_.validate.metrics;
  if (job_.validate.nsd_mm != ValidateOptions().nsd_mm && std::ranges::find(metrics, "nsd") == metrics.end())
    without_effect("validate.nsd_mm", "nsd is not computed; add nsd to validate.metrics", "validate.metrics");
}

void Warnings::mirrors() {
  if (!job_.augment.mirror.empty()) return;
  for (const auto& [tta, key] : {std::pair(&job_.validate.mirror_tta, "validate.mirror_tta"),
                                 std::pair(&job_.predict.mirror_tta, "predict.mirror_tta")})
    if (tta->on && !tta->axes)
      without_effect(
          key,
          "true means the axes of augment.mirror, which names none; name some there, or here, as [z, "
          "y]",
          "augment.mirror");
}

void Warnings::schedule() {
  const ScheduleOptions& schedule = job_.schedule;
  const std::int64_t total = job_.train.total_steps();
  if (schedule.warmup > total)
    list_.rule("schedule.warmup",
               fmt::format("got {} steps in a run of {}: the learning rate never reaches optimizer.lr",
                           schedule.warmup, total));
  if (schedule.name == ScheduleKind::kStep && schedule.every >= total)
    list_.rule("schedule.every", fmt::format("got {} steps in a run of {}: the learning rate never falls",
                                             schedule.every, total));
  if (schedule.name == ScheduleKind::kMultiStep && schedule.milestones.back() >= total)
    list_.rule("schedule.milestones", fmt::format("got {}, which a run of {} steps does not reach",
                                                  schedule.milestones.back(), total));
}

// What waits for more validations than there are.
void Warnings::watching() {
  const std::int64_t total = job_.train.total_steps();
  const std::int64_t before_end = job_.validate.every > 0 ? (total - 1) / job_.validate.every : 0;
  const auto warn = [&](const std::string& key, std::int64_t patience, std::string_view what) {
    list_.rule(key, fmt::format("got {}, but {} validations before the end of the run: {}", patience,
                                before_end, what));
  };
  if (const auto& stop = job_.train.early_stop; stop && stop->patience > before_end)
    warn("train.early_stop.patience", stop->patience, "it is never stopped early");
  if (job_.schedule.name == ScheduleKind::kPlateau && job_.schedule.patience >= before_end)
    warn("schedule.patience", job_.schedule.patience, "the learning rate never falls");
}

void Warnings::loss_scale() {
  const PrecisionOptions& precision = job_.precision;
  const LossScaleOptions& o = precision.loss_scale;
  const bool is_fp16 = precision.compute == ComputeChoice::kFp16;
  if (precision.compute == ComputeChoice::kAuto && !o.mode) return;
  const LossScaleMode mode = o.mode.value_or(is_fp16 ? LossScaleMode::kDynamic : LossScaleMode::kOff);
  if (is_fp16 && mode == LossScaleMode::kOff)
    list_.rule("precision.loss_scale.mode",
               "got off with precision.compute: fp16: gradients below 6e-8 become 0, nothing scales them; "
               "dynamic does");
  if (!precision.check_finite && (is_fp16 || mode != LossScaleMode::kOff))
    without_effect("precision.check_finite", "with fp16 or a loss scale every step is checked",
                   "precision.compute");
  if (mode == LossScaleMode::kDynamic || mode == LossScaleMode::kHeadroom) return;
  const bool is_off = mode == LossScaleMode::kOff;
  const std::string remedy =
      is_off ? "there is no loss scale; set precision.loss_scale.mode"
             : "a static loss scale does not move; set precision.loss_scale.mode: dynamic";
  const LossScaleOptions usual;
  const std::pair<const char*, bool> keys[] = {
      {"init", is_off && o.init != usual.init},
      {"growth_factor", o.growth_factor != usual.growth_factor},
      {"backoff_factor", o.backoff_factor != usual.backoff_factor},
      {"growth_interval", o.growth_interval != usual.growth_interval},
      {"hysteresis", o.hysteresis != usual.hysteresis},
      {"hysteresis_refill", o.hysteresis_refill != usual.hysteresis_refill},
      {"min", o.min != usual.min},
      {"max", o.max != usual.max},
      {"on_forward_nonfinite", o.on_forward_nonfinite != usual.on_forward_nonfinite},
      {"max_skips_at_min", o.max_skips_at_min != usual.max_skips_at_min},
      {"at_floor", o.at_floor != usual.at_floor}};
  for (const auto& [key, differs] : keys)
    if (differs && is_meant(fmt::format("precision.loss_scale.{}", key), "precision.loss_scale.mode"))
      without_effect(fmt::format("precision.loss_scale.{}", key), remedy, "precision.compute");
}

void Warnings::precision() {
  const PrecisionOptions& o = job_.precision;
  if (o.compute != ComputeChoice::kFp32) return;
  constexpr const char* kRemedy = "with precision.compute: fp32 every layer is in FP32";
  if (!o.fp32_layers.empty()) without_effect("precision.fp32_layers", kRemedy, "precision.compute");
  if (o.on_weight_overflow != "abort")
    without_effect("precision.on_weight_overflow", kRemedy, "precision.compute");
  if (o.on_repeat_overflow != "abort")
    without_effect("precision.on_repeat_overflow", kRemedy, "precision.compute");
}

void Warnings::data() {
  const SplitOptions& split = job_.data.split;
  if (split.fold != 0 && !split.folds && !split.file)
    without_effect("data.split.fold", "there are no folds; give data.split.folds or file", "data.split");
  if (split.group && !split.folds && !split.ratios)
    without_effect("data.split.group", "groups are kept together by data.split.folds and ratios only",
                   "data.split");
  if (job_.data.format != "nnunet" || list_.written_at("data.labels")) return;
  for (const char* key : {"data.regions", "data.region_values", "data.ignore_label"})
    without_effect(key, "dataset.json says it; give data.labels too to say it here");
}

void Warnings::augmentation() {
  const AugmentOptions& o = job_.augment;
  const AugmentProbability &p = o.probability, usual;
  struct Row {
    const char *key, *change;
    bool is_off, differs;
  };
  const Row rows[] = {
      {"mirror", "mirror", o.mirror.empty(), p.mirror != usual.mirror},
      {"rotate", "rotate_deg", o.rotate_deg == 0, p.rotate != usual.rotate},
      {"scale", "scale", !o.scale, p.scale != usual.scale},
      {"elastic", "elastic", !o.elastic, p.elastic != usual.elastic},
      {"noise", "noise_std", !o.noise_std, p.noise != usual.noise},
      {"blur", "blur_sigma", !o.blur_sigma, p.blur != usual.blur},
      {"brightness", "brightness", !o.brightness, p.brightness != usual.brightness},
      {"contrast", "contrast", !o.contrast, p.contrast != usual.contrast},
      {"low_resolution", "low_resolution", !o.low_resolution, p.low_resolution != usual.low_resolution},
      {"gamma", "gamma", !o.gamma, p.gamma != usual.gamma},
      {"gamma_inverted", "gamma", !o.gamma, p.gamma_inverted != usual.gamma_inverted}};
  for (const Row& row : rows)
    if (row.is_off && row.differs)
      without_effect(fmt::format("augment.probability.{}", row.key),
                     fmt::format("the change is off; set augment.{}", row.change),
                     fmt::format("augment.{}", row.change));
}

void Warnings::model_and_patch() {
  constexpr std::size_t kFewestStages = 4;  // with fewer the coarser outputs have weight 0
  const ModelOptions& model = job_.model;
  if (!model.init_from && !model.init_rename.empty())
    without_effect("model.init_rename", "no weights are read; set model.init_from", "model.init_from");
  if (!model.init_from && model.init_strict)
    without_effect("model.init_strict", "no weights are read; set model.init_from", "model.init_from");
  if (model.name == "unet3d" && model.unet3d.deep_supervision && model.unet3d.features.size() < kFewestStages)
    without_effect("model.deep_supervision",
                   "a coarser output with a weight above 0 needs 4 or more model.features", "model.features");
  const PatchOptions& patch = job_.patch;
  const bool never_forced = patch.sampling == PatchSampling::kRandom && patch.foreground == 0;
  constexpr const char* kForeground =
      "no patch is centred on a foreground voxel; set patch.foreground above 0";
  if (never_forced && !patch.class_first)
    without_effect("patch.class_first", kForeground, "patch.foreground");
  if (never_forced && !patch.class_weights.empty())
    without_effect("patch.class_weights", kForeground, "patch.foreground");
  if (patch.sampling == PatchSampling::kGrid && !patch.min_foreground && patch.slack > 0)
    without_effect("patch.slack", "all patches stay; set patch.min_foreground", "patch.min_foreground");
}

}  // namespace

void warn_without_effect(const JobOptions& job, ErrorList& warnings) { Warnings(job, warnings).collect(); }

}  // namespace tandem
