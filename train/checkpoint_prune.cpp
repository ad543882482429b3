// Deleting checkpoints by hand: `tandem ckpt prune`.
#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "train/checkpoint.h"

namespace tandem {

std::vector<CheckpointInfo> prune_checkpoints(const std::filesystem::path& folder,
                                              const PruneOptions& options) {
  const NewestCheckpoint newest = newest_intact(folder);
  if (!newest.found)
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("[checkpoint] {}: got no intact checkpoint, expected one that stays", folder.string()),
        "Nothing was deleted.");
  std::set<std::filesystem::path> kept;
  for (const char* pointer : {"latest", "best"})
    if (const auto target = read_pointer(folder, pointer)) kept.insert(target->filename());
  const std::vector<RankedCheckpoint> best = load_checkpoint(newest.found->path).best;
  std::set<std::int64_t> kept_steps;
  for (std::size_t i = 0; i < best.size() && static_cast<std::int64_t>(i) < options.keep_best; ++i)
    kept_steps.insert(best[i].step);
  std::vector<CheckpointInfo> deleted;
  std::int64_t newer = 0;                                        // intact ones that stay for being new
  for (const CheckpointInfo& info : list_checkpoints(folder)) {  // newest first
    // A damaged one does not count, and stays for its owner to look at.
    if (!info.problem.empty() || info.step > newest.found->step) continue;
    if (newer++ < options.keep_last || kept.contains(info.path.filename()) || kept_steps.contains(info.step))
      continue;
    if (!options.dry_run) remove_file(info.path);
    deleted.push_back(info);
  }
  return deleted;
}

}  // namespace tandem
