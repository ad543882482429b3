// Which scalars go to TensorBoard, and what is made anew on resume.
#include "train/run_log.h"

#include <algorithm>
#include <cmath>

#include "core/base/files.h"

namespace tandem {
namespace {

Scalars scalars_of(const StepMetrics& m) {
  Scalars scalars{{"train/loss", m.loss},
                  {"train/lr", m.lr},
                  {"train/loss_scale", m.scale},
                  {"train/step_ms", m.step_ms},
                  {"train/data_wait_ms", m.data_wait_ms}};
  if (std::isfinite(m.grad_norm)) scalars.emplace_back("train/grad_norm", m.grad_norm);
  return scalars;
}

Scalars scalars_of(const ValidationMetrics& m) {
  Scalars scalars{{"validation/mean_dice", m.mean_dice}};
  if (m.loss) scalars.emplace_back("validation/loss", *m.loss);
  for (const auto& [name, value] : m.dice)
    if (!std::isnan(value)) scalars.emplace_back("validation/dice/" + name, value);
  return scalars;
}

std::int64_t last_step(const MetricsHistory& history) {
  const std::int64_t step = history.steps.empty() ? 0 : history.steps.back().step;
  return history.validations.empty() ? step : std::max(step, history.validations.back().step);
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& folder, bool tensorboard, const std::vector<std::string>& classes,
               const MetricsHistory& history)
    : jsonl_(folder / "metrics.jsonl"), table_(classes) {
  const std::filesystem::path csv = folder / "metrics.csv";
  expect_file_or_nothing(csv);
  write_file_atomically(csv, table_.text(history));
  csv_ = std::make_unique<AppendFile>(csv);
  if (!tensorboard) return;
  const bool replay = tensorboard_files(folder).empty();
  tensorboard_ = std::make_unique<TensorboardWriter>(folder, replay ? 0 : last_step(history) + 1);
  if (!replay) return;
  history.in_order(
      [this](const MetricsHistory::Step& step) { tensorboard_->write(step.step, scalars_of(step)); },
      [this](const ValidationMetrics& validation) {
        tensorboard_->write(validation.step, scalars_of(validation));
      });
}

void RunLog::write(const StepMetrics& metrics) {
  jsonl_.write(metrics);
  csv_->append(table_.row(metrics));
  if (tensorboard_) tensorboard_->write(metrics.step, scalars_of(metrics));
}

void RunLog::write(const ValidationMetrics& metrics) {
  jsonl_.write(metrics);
  csv_->append(table_.row(metrics));
  if (tensorboard_) tensorboard_->write(metrics.step, scalars_of(metrics));
}

}  // namespace tandem
