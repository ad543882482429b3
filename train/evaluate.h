// Whole volumes through a trained model: sliding-window logits, labels, and scores against the truth. Windows
// and blending are data/sliding_window, counts and scores data/segmentation_metrics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/label_map.h"
#include "data/volume.h"
#include "layers/module.h"
#include "train/job.h"

namespace tandem {

// How volumes are cut and blended; the same fields of ValidateOptions and PredictOptions.
struct WindowChoice {
  double overlap = 0.5;
  BlendKind blend = BlendKind::kGaussian;
  bool mirror_tta = false;
  std::int64_t batch_size = 1;
};
WindowChoice window_choice(const ValidateOptions& options);
WindowChoice window_choice(const PredictOptions& options);

// A model with bound parameters, and what it was trained with. `should_stop` is asked between windows; when
// it says yes Error{kStopped} is thrown.
struct Predictor {
  Context context;
  Module* model = nullptr;
  const JobOptions* job = nullptr;
  std::function<bool()> should_stop;
};

// Class index of every voxel of the case `file` on its own (canonical) grid: argmax of the blended logits.
LabelVolume predict_case(const Predictor& predictor, const WindowChoice& window, const std::string& file);

// NaN: the class is absent in truth and prediction of every case.
struct CaseScores {
  std::string id, file;
  std::vector<double> dice, iou;  // per foreground class
};
struct EvaluationResult {
  std::vector<std::string> classes;  // foreground
  std::vector<CaseScores> cases;
  std::vector<double> dice, iou;       // mean over the cases where the class is present
  double mean_dice = 0, mean_iou = 0;  // over classes that are present somewhere
  double seconds = 0;
};
EvaluationResult evaluate_cases(const Predictor& predictor, const WindowChoice& window,
                                const std::vector<std::string>& files);

}  // namespace tandem
