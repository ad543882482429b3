// The report of a dry run.
#include "train/dry_run.h"

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/tensor/allocator.h"
#include "data/split.h"
#include "train/criterion.h"
#include "train/metrics_log.h"
#include "train/run_report.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string duration_text(double ms) {
  const double seconds = ms / 1000;
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::int64_t checkpoint_bytes(const Trainer& trainer) {
  CheckpointContent content;
  trainer.save(content);
  std::int64_t bytes = 0;
  for (const NamedTensor& named : content.tensors)
    bytes += named.tensor.numel() * static_cast<std::int64_t>(size_of(named.tensor.dtype()));
  return bytes;
}

// The nearest folder above `path` that is there.
fs::path existing_parent(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::string saving_text(const JobOptions& job, const RunFolderRequest& folder, const Trainer& trainer) {
  const std::int64_t bytes = checkpoint_bytes(trainer);
  const std::int64_t kept =
      job.checkpoint.keep_last + 1 + (job.select.metric == "none" ? 0 : job.checkpoint.keep_best);
  const fs::path target = folder.folder.value_or(folder.root / (folder.name + "-NNN"));
  const std::int64_t free = free_disk_bytes(existing_parent(target));
  std::string text = fmt::format("saves: every {} and at the end, {:.1f} MiB each, into {}",
                                 counted(job.checkpoint.every, "step"), mebibytes(bytes), target.string());
  if (kept * bytes > free)
    text += fmt::format("\nwarning: up to {} are kept at a time, {:.1f} MiB, and {:.1f} MiB are free there",
                        counted(kept, "checkpoint"), mebibytes(kept * bytes), mebibytes(free));
  return text;
}

std::string validation_text(const JobOptions& job, bool overfit) {
  if (overfit) return "validates: never, --overfit trains on its own samples";
  const std::size_t cases = validation_cases(job.data).size();
  if (cases == 0) return "validates: never, there are no validation cases";
  return job.validate.every == 0 ? fmt::format("validates: {} after the last step", counted(cases, "case"))
                                 : fmt::format("validates: {} every {}", counted(cases, "case"),
                                               counted(job.validate.every, "step"));
}

}  // namespace

std::string dry_run_report(const JobOptions& job, const RunRequest& request, const Trainer& trainer,
                           const DryRunSteps& steps) {
  const auto& [first, second] = steps;
  const double offset = loss_offset(job.loss);
  const auto total = static_cast<double>(job.train.total_steps());
  return fmt::format(
      "dry run: a step took {:.0f} ms, {:.0f} ms of them for its data (the first one, which prepares "
      "kernels, "
      "{:.0f} ms); loss {:.4f}, then {:.4f}; events {}, {}\n"
      "peak tensor memory {}; with rounding and blocks kept for reuse {:.1f} MiB are taken from the system\n"
      "trains: {}, at this speed {}\n{}\n{}\nnothing was written",
      second.step_ms, second.data_wait_ms, first.step_ms, first.loss + offset, second.loss + offset,
      event_name(first.event), event_name(second.event), memory_text(trainer.context().device),
      mebibytes(allocator_of(trainer.context().device)->statistics().reserved),
      counted(job.train.total_steps(), "step"), duration_text(total * second.step_ms),
      validation_text(job, request.overfit.has_value()), saving_text(job, request.folder, trainer));
}

}  // namespace tandem
