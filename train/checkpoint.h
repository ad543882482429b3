// Checkpoints: one file that holds all a run needs to go on with the same bits; saved whole or not at all,
// believed only when its digest fits. Knows nothing of models, optimizers or jobs: they fill and take a
// CheckpointContent.
//
// The file is docs/formats.md's: a 512-byte header (magic, version, length, XXH3-128, step), then HDF5 that
// h5py reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernels/step_state.h"
#include "core/tensor/tensor.h"
#include "optim/schedule.h"

namespace tandem {

// name: "GROUP/..." of letters, digits and `_.-+:`, 2 to 4 parts, GROUP not "state" or "meta":
// "model/enc0.conv1.weight", "optimizer/exp_avg/enc0.conv1.weight", "ema/...", "buffer/...".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// A saved step and its value of the metric that chooses the best.
struct RankedCheckpoint {
  std::int64_t step = 0;
  double value = 0;
};

struct CheckpointContent {
  std::int64_t step = 0;            // optimizer steps attempted; names the file
  std::int64_t epoch = 0;           // finished epochs
  std::int64_t epoch_position = 0;  // samples of the current epoch that are used already
  std::int64_t total_steps = 0;     // of the schedule; its position is state.applied
  StepState state;
  MetricWatch early_stop;              // train.early_stop
  PlateauState plateau;                // schedule plateau
  std::vector<RankedCheckpoint> best;  // best first; see rank_checkpoint()
  // Saved from any device and channel pitch, as [K, C, taps]; loaded packed, on the host. Any dtype.
  std::vector<NamedTensor> tensors;
  std::string config_yaml, environment_json, engine_choices;  // not compared by diff_checkpoints
  // Set by load: names of state values that the file does not have; they keep the defaults above.
  std::vector<std::string> defaulted;

  const Tensor* find(std::string_view name) const;  // null if absent
};

struct CheckpointSaveOptions {
  std::int64_t keep_last = 2;  // >= 1: newest checkpoints kept, this one included
  bool verify = true;          // read the file back before it gets its name
  bool check_space = true;     // ask the file system first: needs 1.1 times the size + 64 MB
};

// Saves `content` in `folder` as step-000001200.h5, lets `latest` (and `best`, if content.best is not empty)
// name it, then deletes checkpoints of earlier steps that are neither among the keep_last newest nor in
// content.best. Files of later steps are never touched. Whatever fails, and wherever the process dies, the
// earlier checkpoints stay. Errors: kNumeric naming the first tensor with a non-finite value; kResource (disk
// full, read-only, ...) naming the last good one.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content,
                                      const CheckpointSaveOptions& options = {});

// Header and digest are checked before anything else is read. Error{kCheckpoint} with the reason.
CheckpointContent load_checkpoint(const std::filesystem::path& path);

// Checks header, length, digest, and that the content opens and is of the header's step; returns that step.
// Error{kCheckpoint} with the reason.
std::int64_t verify_checkpoint(const std::filesystem::path& path);

struct CheckpointInfo {
  std::filesystem::path path;
  std::int64_t step = -1;  // of the header; -1 when unreadable
  std::int64_t bytes = 0;  // of the file
  std::string problem;     // empty: none found
};

// All step-*.h5 of `folder`, newest first by the header's step. The digest is checked only with `verify`.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder, bool verify = false);

struct NewestCheckpoint {
  std::optional<CheckpointInfo> found;
  std::vector<CheckpointInfo> rejected;  // newer ones (or unreadable ones) with their problems
};
// The intact checkpoint of the greatest step. What `latest` says and the time of a file do not matter.
NewestCheckpoint newest_intact(const std::filesystem::path& folder);

// `path` if it is a file, the newest intact checkpoint if it is a folder, with a warning for each rejected
// file; Error{kCheckpoint} if there is none, naming each rejected file.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

struct PruneOptions {
  std::int64_t keep_last = 1;                                         // >= 1: newest intact ones that stay
  std::int64_t keep_best = std::numeric_limits<std::int64_t>::max();  // of the best ones, best first
  bool dry_run = false;                                               // delete nothing
};

// Deletes (or with dry_run only names) intact checkpoints of `folder` that are neither among the keep_last
// newest nor among the keep_best best (as the newest one lists them), nor what `latest` or `best` names.
// Damaged ones stay. Error{kCheckpoint}, with nothing deleted, unless one is intact.
std::vector<CheckpointInfo> prune_checkpoints(const std::filesystem::path& folder,
                                              const PruneOptions& options);

// The file that `latest` or `best` of `folder` names; nothing if the pointer or its file is missing.
std::optional<std::filesystem::path> read_pointer(const std::filesystem::path& folder,
                                                  std::string_view pointer);

// Puts (step, value) into `best` (best first, at most `keep` entries) and says if it got in. Equal values:
// the earlier step stays ahead. A non-finite value never gets in. Only steps that are saved may be ranked.
bool rank_checkpoint(std::vector<RankedCheckpoint>& best, RankedCheckpoint candidate, bool higher_is_better,
                     std::int64_t keep);

// The tensor `name` of shape `shape`; Error{kCheckpoint} with both shapes.
const Tensor& require_tensor(const CheckpointContent& content, std::string_view name, const Shape& shape);
// Copies each target's value from `content`, same name, shape and dtype; targets may be pitched views on any
// device. Checks all first: Error{kCheckpoint} lists every difference, among them tensors of the content in
// the targets' groups
// ("model/...") that no target asks for, and then nothing is changed.
void restore_tensors(const CheckpointContent& content, std::span<const NamedTensor> targets);

// A name of a tensor or state whose bits differ, and how.
struct CheckpointDifference {
  std::string name;  // "model/enc0.conv1.weight", "state/scaler/scale"
  std::string text;  // "17 of 864 values differ by up to 0.25, first at [0, 1, 2]: 0.5, 0.25"
};
// Bitwise comparison of all tensors, then all states, by name; the second gives the first of them.
std::vector<CheckpointDifference> all_differences(const CheckpointContent& a, const CheckpointContent& b);
std::optional<CheckpointDifference> diff_checkpoints(const CheckpointContent& a, const CheckpointContent& b);

}  // namespace tandem
