// The forward pass of a patch, and the loop over cases.
#include "train/evaluate.h"

#include "core/base/error.h"
#include "core/ops/elementwise.h"

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

SegmentationScores evaluate_cases(const DataOptions& data, const std::vector<CaseEntry>& cases,
                                  const EvaluationRequest& request, const PatchModel& model) {
  const LabelMap labels(data.labels, data.other_labels);
  const std::vector<ScoredRegion> regions = regions_of_classes(labels.names());
  SegmentationScores scores(labels.names(), request.metrics);
  for (const CaseEntry& entry : cases) {
    const PreparedCase prepared = prepare_whole_case(open_case(entry, data.orientation), data);
    const std::vector<std::int32_t> truth = reference_labels(prepared);
    const CasePrediction predicted =
        predict_case(prepared, request.window, std::span(&model, 1), {.classes = labels.classes()});
    const LabelPair pair{prepared.shape(), prepared.info().geometry.spacing_mm(), labels.classes(),
                         predicted.labels, truth};
    scores.add_case({.id = prepared.info().id,
                     .file = entry.file(),
                     .shape = pair.shape,
                     .spacing_mm = pair.spacing_mm,
                     .scores = score_case(pair, regions, request.metrics)});
    if (request.on_case) request.on_case(prepared.info(), pair);
  }
  return scores;
}

}  // namespace tandem
