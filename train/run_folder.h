// The folder of a run: which one it is, whose it is (lock), and bringing it back to a checkpoint's state on
// resume. What is written into its files is the subject of checkpoint, metrics_log and the job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"

namespace tandem {

struct RunFolderRequest {
  std::filesystem::path root = "runs";          // new runs are root/<name>-NNN
  std::string name;                             // of the job
  std::optional<std::filesystem::path> folder;  // --run-dir
  // --resume: empty: a new run; "auto": go on from the newest intact checkpoint if there is one (of `folder`,
  // else of the run of `name` with the greatest number), otherwise a new run; else a checkpoint or run folder
  // to go on from.
  std::string resume;
  bool overwrite = false;  // --overwrite: what a used `folder` holds is moved aside to FOLDER.old-NNN
};

// Errors: kUsage for a folder that is in use by another process (its pid is named), not empty, or no run
// folder; kCheckpoint when there are checkpoints but none is intact; kResource from the file system.
class RunFolder {
 public:
  // Finds or makes the folder, locks it (run.lock), removes stale .tmp-*, finds the checkpoint to go on from.
  // Rejected checkpoints are logged as warnings. Nothing of an earlier run is changed, but for --overwrite.
  explicit RunFolder(const RunFolderRequest& request);

  const std::filesystem::path& path() const { return path_; }
  // The checkpoint to load; nothing: start from step 0.
  const std::optional<std::filesystem::path>& checkpoint() const { return checkpoint_; }

  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path log_path() const { return path_ / "log.txt"; }
  // Starts the run in the folder; to be called once the checkpoint is loaded and fits, before the first step.
  // Cuts metrics.jsonl, TensorBoard events and validation/ back to the checkpoint's step, moves checkpoints
  // of later steps to superseded-NNN/ (both are logged), writes config.resolved.yaml and environment.json,
  // and sends the log to log.txt too.
  void describe(const std::string& config_yaml, const std::string& environment_json) const;

 private:
  void find_checkpoint(const RunFolderRequest& request);
  void cut_back(std::int64_t step) const;

  std::filesystem::path path_;
  std::unique_ptr<FileLock> lock_;
  std::optional<std::filesystem::path> checkpoint_;
  std::optional<std::int64_t> resumed_step_;  // of this folder's own run
};

// What decides the last bits of a result, and who made it.
struct RunEnvironment {
  std::string version;  // of tandem
  std::string isa;      // "amx", "avx512", ...
  std::string compute;  // dtype: "F32", "BF16", "F16"
  std::string device;   // "cpu", "cuda:0"
  std::int64_t threads = 1;
};
std::string environment_json(const RunEnvironment& environment);
// One line per value that differs between a checkpoint's environment and this one; empty: the same bits
// follow.
std::vector<std::string> environment_differences(const std::string& saved_json,
                                                 const std::string& current_json);

}  // namespace tandem
