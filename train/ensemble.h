// The models of a prediction: a run, and the runs that predict.ensemble names. How their answers are averaged
// is data/prediction.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/sliding_window.h"
#include "train/session.h"

namespace tandem {

class Ensemble {
 public:
  // Opens `run` (with `overrides`) and the runs of its predict.ensemble; the run itself may be among them and
  // counts once. Error{kConfig} naming the run and the key if a member has other classes, normalisation or
  // patch size.
  Ensemble(const std::filesystem::path& run, const std::vector<std::string>& overrides);

  // Of the run itself: how data are read, windows laid and results written.
  const JobOptions& job() const { return members_.front().job; }
  const std::vector<SavedRun>& members() const { return members_; }

  // Loads every model, for inputs such as `input`; see load_model. A new input with the same number of
  // channels keeps them.
  void load(const CaseInfo& input);
  // Valid as long as the ensemble; after load().
  std::vector<PatchModel> models(std::function<bool()> should_stop = {});

 private:
  std::vector<SavedRun> members_;
  std::vector<EvaluationModel> loaded_;
  std::int64_t channels_ = 0;
};

}  // namespace tandem
