// Opening members, and what they must agree in.
#include "train/ensemble.h"

#include <algorithm>

#include "core/base/error.h"
#include "train/evaluate.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_member(const SavedRun& first, const SavedRun& member, const char* key) {
  throw Error(ErrorKind::kConfig,
              fmt::format("[predict] predict.ensemble: {}: {}: got another value than {}, expected the same",
                          member.folder.string(), key, first.folder.string()),
              "Only runs of one job, such as its folds, can be averaged.");
}

void check_member(const SavedRun& first, const SavedRun& member) {
  if (member.job.data.labels != first.job.data.labels) fail_member(first, member, "data.labels");
  if (member.job.data.regions != first.job.data.regions) fail_member(first, member, "data.regions");
  if (member.job.data.region_values != first.job.data.region_values)
    fail_member(first, member, "data.region_values");
  if (member.job.data.spacing != first.job.data.spacing) fail_member(first, member, "data.spacing");
  if (member.job.data.crop_nonzero != first.job.data.crop_nonzero)
    fail_member(first, member, "data.crop_nonzero");
  if (member.job.data.orientation != first.job.data.orientation)
    fail_member(first, member, "data.orientation");
  if (member.job.data.normalize != first.job.data.normalize) fail_member(first, member, "data.normalize");
  if (member.job.patch.size != first.job.patch.size) fail_member(first, member, "patch.size");
}

}  // namespace

Ensemble::Ensemble(const fs::path& run, const std::vector<std::string>& overrides) {
  members_.push_back(open_run(run, overrides));
  const std::vector<std::string> others = members_.front().job.predict.ensemble;
  for (const std::string& other : others) {
    SavedRun member = open_run(other, {});
    const auto same = [&](const SavedRun& known) {
      return fs::weakly_canonical(known.checkpoint_path) == fs::weakly_canonical(member.checkpoint_path);
    };
    if (std::any_of(members_.begin(), members_.end(), same)) continue;
    check_member(members_.front(), member);
    members_.push_back(std::move(member));
  }
}

void Ensemble::load(const CaseInfo& input) {
  if (input.channels == channels_) return;
  loaded_.clear();
  for (const SavedRun& member : members_) loaded_.push_back(load_model(member, input));
  channels_ = input.channels;
}

std::vector<PatchModel> Ensemble::models(std::function<bool()> should_stop) {
  std::vector<PatchModel> models;
  for (EvaluationModel& one : loaded_)
    models.push_back(patch_model(one.session.context, *one.session.model, should_stop));
  return models;
}

}  // namespace tandem
