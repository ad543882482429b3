// `tandem sweep`: the points of a sweep, its record, and its table. Running the points is apps/sweep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/append_file.h"

namespace tandem {

using Overrides = std::vector<std::string>;  // "optimizer.lr=0.001"

// Every combination of `grids` ("KEY=[value, value]", the last one varies fastest), then one point for each
// of `runs`
// ("KEY=VALUE KEY=VALUE", apart by spaces; a value with spaces belongs in a grid of one). Error{kUsage}: no
// point, more than 10000, a grid without a list, a key twice in one point.
std::vector<Overrides> sweep_points(const std::vector<std::string>& grids,
                                    const std::vector<std::string>& runs);

// What came of one point.
struct SweepResult {
  std::string run;  // its folder within that of the sweep: "001"
  Overrides overrides;
  int exit_code = 0;  // of `tandem train`
  double seconds = 0;
  std::int64_t step = 0;
  std::optional<double> loss, dice, best_dice;  // last step logged; last and best validation

  bool done() const { return exit_code == 0; }
};

// Fills step, loss and scores from metrics.jsonl of `folder`; a missing file changes nothing.
void read_scores(const std::filesystem::path& folder, SweepResult& result);

// sweep.jsonl of the folder: {"kind": "sweep", "job", "overrides", "digest"} of the whole sweep, then one
// line per attempt, {"kind": "run", "run", "overrides", "exit_code", "seconds"}; of several of one run the
// last counts.
class SweepRecord {
 public:
  // Makes the folder, or reads what is there. `resolved` is the job with the base overrides and all defaults.
  // Error{kUsage} if it holds a sweep of another job, of other base overrides, or of a job that has changed
  // since.
  SweepRecord(const std::filesystem::path& folder, const std::string& job, const Overrides& base,
              const std::string& resolved);
  // The last attempt at `run`; nothing if there was none. Error{kUsage} if it had other overrides.
  std::optional<SweepResult> find(const std::string& run, const Overrides& overrides) const;
  // Written to the disk when it returns; Error{kResource} if that fails.
  void add(const SweepResult& result);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::unique_ptr<AppendFile> file_;
  std::vector<SweepResult> results_;
};

// A row per result: run, status (done, stopped, failed), exit_code, step, loss, dice, best_dice, seconds,
// then a column per key of any point (RFC 4180; empty where there is none).
std::string sweep_csv(const std::vector<SweepResult>& results);
// The same for people, best first (best_dice, else the loss; failed ones last).
std::string sweep_table(std::vector<SweepResult> results);

}  // namespace tandem
