// The forward pass of a patch, and the loop over cases.
#include "train/evaluate.h"

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "data/case_probe.h"
#include "data/split.h"

namespace tandem {

PatchModel patch_model(const Context& context, Module& model, std::function<bool()> should_stop) {
  Context evaluation = context;
  evaluation.training = false;
  return [evaluation, &model, should_stop = std::move(should_stop)](const Tensor& image) {
    if (should_stop && should_stop()) throw Error(ErrorKind::kStopped, "[predict] stopped by a signal");
    Tape tape(evaluation, false);
    const Var input = cast(tape.constant(image.to_device(evaluation.device)), evaluation.compute);
    const Outputs outputs = model(input);
    return outputs.main.value().to_device(kCpuDevice);
  };
}

std::vector<ScoredRegion> scored_regions(const LabelMap& labels) {
  if (labels.regions() == 0) return regions_of_classes(labels.names());
  std::vector<ScoredRegion> regions{{labels.names().front(), {0}}};
  for (std::int64_t r = 0; r < labels.regions(); ++r) {
    regions.push_back({labels.output_names()[static_cast<std::size_t>(r) + 1], {}});
    for (std::int64_t c = 0; c < labels.classes(); ++c)
      if (labels.in_region(r, c)) regions.back().classes.push_back(static_cast<std::int32_t>(c));
  }
  return regions;
}

SegmentationScores evaluate_cases(const DataOptions& data, const std::vector<CaseEntry>& cases,
                                  const EvaluationRequest& request, const PatchModel& model) {
  const LabelMap labels(data);
  const std::vector<ScoredRegion> regions = scored_regions(labels);
  SegmentationScores scores(labels.output_names(), request.metrics);
  for (const CaseEntry& entry : cases) {
    const PreparedCase prepared = prepare_whole_case(open_case(entry, data.orientation), data);
    const std::vector<std::int32_t> truth = reference_labels(prepared);
    const CasePrediction predicted =
        predict_case(prepared, request.window, std::span(&model, 1), prediction_request(labels));
    const LabelPair pair{prepared.info().geometry.shape(), prepared.info().geometry.spacing_mm(),
                         labels.classes(), predicted.labels, truth};
    scores.add_case({.id = prepared.info().id,
                     .file = entry.file(),
                     .shape = pair.shape,
                     .spacing_mm = pair.spacing_mm,
                     .scores = score_case(pair, regions, request.metrics)});
    if (request.on_case) request.on_case({prepared, pair, scores.cases().back()});
  }
  return scores;
}

std::vector<CaseEntry> checked_validation_cases(const DataOptions& data, std::int64_t channels,
                                                const StopRequested& stop_requested) {
  std::vector<CaseEntry> cases = validation_cases(data);
  for (const CaseEntry& entry : cases) {
    leave_if_stopped(stop_requested);
    // The whole of it: a file that crashes its reader ends the run here, and not at the first validation.
    if (is_case_file_name(entry.file())) probe_case_file(entry.file(), true);
    const CaseInfo info = read_case_info(entry, data.orientation);
    if (!info.has_labels)
      throw Error(
          ErrorKind::kData,
          fmt::format("[data] {}: got a case without labels, expected labels to validate on", entry.file()),
          how_to_label(entry.file()));
    if (info.channels != channels)
      fail(ErrorKind::kData, "[data] {}: got {}, expected {} as in the training cases", entry.file(),
           counted(info.channels, "channel"), channels);
  }
  return cases;
}

}  // namespace tandem
