// The validation of a run and its report.
#include "train/run_validation.h"

#include <chrono>

#include "core/base/log.h"
#include "core/tensor/allocator.h"
#include "data/label_map.h"
#include "train/report.h"

namespace tandem {
namespace {

// Blocks that a step leaves in the allocator's cache do not fit a validation, nor the other way round: they
// go back to the system between the two.
class CacheOfItsOwn {
 public:
  explicit CacheOfItsOwn(const Device& device) : allocator_(allocator_of(device)) {
    allocator_->empty_cache();
  }
  ~CacheOfItsOwn() { allocator_->empty_cache(); }
  CacheOfItsOwn(const CacheOfItsOwn&) = delete;
  CacheOfItsOwn& operator=(const CacheOfItsOwn&) = delete;

 private:
  std::shared_ptr<Allocator> allocator_;
};

}  // namespace

ValidationResult run_validation(const JobOptions& job, const std::vector<CaseEntry>& cases,
                                const ModelSession& session, Trainer& trainer,
                                const std::function<bool()>& should_stop) {
  const auto start = std::chrono::steady_clock::now();
  const CacheOfItsOwn cache(session.context.device);
  const PatchModel model = patch_model(session.context, *session.model, should_stop);
  std::optional<ValidationRecorder> record;
  if (job.log.report)
    record.emplace(trainer.state().attempted, LabelMap(job.data).output_names(), job.validate.metrics);
  const EvaluationRequest request{.window = window_options(job.validate, job.patch, job.augment),
                                  .metrics = metric_options(job.validate),
                                  .on_case = record ? record->visitor() : nullptr};
  std::optional<SegmentationScores> scores;
  trainer.with_mean_weights([&] { scores = evaluate_cases(job.data, cases, request, model); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {std::move(*scores), std::move(record), seconds.count()};
}

void update_report(const std::filesystem::path& run_folder, const ValidationRecorder* validation) {
  try {
    if (validation != nullptr) validation->write(run_folder);
    write_report(run_folder);
  } catch (const std::exception& error) {
    log_warning("report.html is not written: {}", error.what());
  }
}

}  // namespace tandem
