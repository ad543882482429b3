// The rules between the parts of a job that training would break at.
#include "train/job_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/params/name_patterns.h"
#include "data/patch_sampler.h"
#include "data/volume.h"
#include "train/device_choice.h"
#include "train/init_from.h"
#include "train/job_warnings.h"

namespace tandem {
namespace {

using Keys = std::vector<std::string>;

// What the layers of the model, and so their names, follow from.
const Keys kModelKeys{"model.name", "model.features",   "model.strides", "model.kernels",
                      "model.norm", "model.activation", "model.dropout"};

void check_data(const JobOptions& job, ErrorList& errors) {
  if (job.data.train.empty() && !errors.is_any_wrong(Keys{"data.train", "data.format"}))
    errors.rule("data.train", "got no files, expected at least one case to train on");
  std::vector<std::string> classes;
  for (const LabelClass& label : job.data.labels) classes.push_back(label.name);
  if (classes.empty() || errors.is_any_wrong(Keys{"data.labels", "patch.class_weights"})) return;
  if (const auto fault = class_weights_fault(job.patch, classes)) errors.rule("patch.class_weights", *fault);
}

void check_loss(const JobOptions& job, ErrorList& errors) {
  if (job.data.outputs() == 0 ||
      errors.is_any_wrong(Keys{"loss", "data.labels", "data.regions", "data.ignore_label"}))
    return;
  if (const auto fault = loss_fault(job.loss, job.data.outputs(), job.data.ignore_label.has_value()))
    errors.rule("loss." + fault->key, fault->text, fault->hint);
}

void check_patterns(const JobOptions& job, ErrorList& errors) {
  if (errors.is_any_wrong(kModelKeys)) return;
  const std::unique_ptr<Module> model =
      make_model(job.model, 1, std::max<std::int64_t>(job.data.outputs(), 1));
  std::vector<std::string> all, cast;
  for (const NamedParameter& p : model->parameters()) {
    all.push_back(p.name);
    if (p.parameter->region() == ParamRegion::kCast) cast.push_back(p.name);
  }
  const auto check = [&errors](const std::string& list, const std::vector<std::string>& patterns,
                               const std::vector<std::string>& names, std::string_view expected,
                               std::string_view key = "") {
    if (errors.is_any_wrong(Keys{list})) return;
    for (const UnmatchedPattern& wrong : unmatched_patterns(patterns, names))
      errors.rule(fmt::format("{}[{}]{}", list, wrong.index, key),
                  fmt::format("got '{}', expected {}", wrong.pattern, expected), wrong.hint);
  };
  constexpr std::string_view kAny = "the name of a layer or parameter";
  check("precision.fp32_layers", job.precision.fp32_layers, all, kAny);
  check("precision.low_layers", job.precision.low_layers, cast,
        "the name of a conv or linear layer or its weight (others are always FP32)");
  std::vector<std::string> groups;
  for (const OptimizerGroup& group : job.optimizer.groups) groups.push_back(group.match);
  check("optimizer.groups", groups, all, kAny, ".match");
}

void check_renames(const JobOptions& job, ErrorList& errors) {
  if (errors.is_any_wrong(Keys{"model.init_rename"})) return;
  const std::vector<std::string>& texts = job.model.init_rename;
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!rename_rule(texts[i]))
      errors.rule(fmt::format("model.init_rename[{}]", i),
                  fmt::format("got '{}', expected {}", texts[i], kRenameForm));
}

void check_training(const JobOptions& job, ErrorList& errors) {
  check_data(job, errors);
  check_patch(job, errors);
  check_loss(job, errors);
  check_patterns(job, errors);
  check_renames(job, errors);
}

// Whether the device is named rightly, but is not there.
bool check_device(const JobOptions& job, ErrorList& errors) {
  if (errors.is_any_wrong(Keys{"device"})) return false;
  const std::optional<std::string> missing = missing_device(job.device);
  if (missing)
    errors.rule("device", *missing, "use device: cpu or auto; docs/gpu.md says what to do about the reason");
  return missing.has_value();
}

}  // namespace

void check_patch(const JobOptions& job, ErrorList& errors) {
  if (errors.is_any_wrong(kModelKeys)) return;
  const ModelTraits traits = model_traits(job.model);
  if (!traits.is_dense || traits.spatial_rank != 3)
    return errors.rule("model.name", fmt::format("got {}, expected a model that labels the voxels of a "
                                                 "volume, as task: segmentation needs",
                                                 job.model.name));
  if (errors.is_any_wrong(Keys{"patch.size"})) return;
  const Index3 size = job.patch.size, multiple = traits.size_multiple;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (size[axis] % multiple[axis] != 0)
      return errors.rule("patch.size",
                         fmt::format("got {}, expected multiples of {}, the product of the model's strides",
                                     to_string(size), to_string(multiple)),
                         "change it, or model.strides");
  // One voxel has no deviation: instance norm gives its shift there, whatever the image.
  if (job.model.name == "unet3d" && job.model.unet3d.norm == "instance" && size == multiple)
    errors.rule(
        "patch.size",
        fmt::format("got {}, one voxel at the coarsest stage, where model.norm: instance leaves nothing "
                    "of it; expected a larger multiple of {} along some axis",
                    to_string(size), to_string(multiple)),
        "enlarge it, use fewer stages (model.features, model.strides), or model.norm: batch");
}

CheckedJob load_checked_job(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const ConfigNode root = load_config(path, overrides);
  CheckedJob checked;
  ErrorList errors, warnings;
  read_job(root, checked.job, errors);
  const ErrorList::Scope whole(errors, "", &root), same(warnings, "", &root);
  check_training(checked.job, errors);
  const bool lacks_device = check_device(checked.job, errors);
  errors.throw_if_any(lacks_device && errors.count() == 1 ? ErrorKind::kDevice : ErrorKind::kConfig);
  warn_without_effect(checked.job, warnings);
  checked.warnings = warnings.lines();
  return checked;
}

}  // namespace tandem
