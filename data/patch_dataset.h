// Training patches of a set of cases.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/options.h"
#include "data/prepared_case.h"
#include "data/reading_stop.h"

namespace tandem {

// With patch.sampling: random sample `index` is a patch of case `index`: an epoch visits every case once.
// Position and augmentation come from the draw (data/patch_sampler.h, data/augment.h). With grid the samples
// are the patches of data/patch_grid.h of all cases; only augmentation comes from the draw.
class PatchDataset final : public Dataset {
 public:
  // Opens and scans the cases of data.train; keeps them in memory as data.cache and data.cache_bytes say.
  // Error{kData} for no case, a case without labels, cases with different numbers of channels, or a grid
  // without any patch that stays; Error{kConfig} for patch.class_weights of no class.
  // Samples carry /weight where a case has it; voxels of other cases, and beyond a case, weigh 1. With
  // data.regions their labels are [1, R, D, H, W]: 1 in the regions that hold a voxel, else 0, or
  // kIgnoredLabel in all of them.
  // `dry_run`: nothing is written: of the cases that would be read from the disk cache only those are used
  // that can be read from their files box by box, else the first.
  // Error{kStopped} when `stop_requested` says so between two cases.
  PatchDataset(const DataOptions& data, const PatchOptions& patch, const AugmentOptions& augment,
               bool dry_run = false, const StopRequested& stop_requested = {});

  std::int64_t size() const override {
    return static_cast<std::int64_t>(grid_.empty() ? cases_.size() : grid_.size());
  }
  Sample get(std::int64_t index, const Draw& draw) const override;
  std::string name(std::int64_t index) const override {
    return cases_[static_cast<std::size_t>(index)]->info().file;
  }

  std::int64_t channels() const { return cases_.front()->channels(); }
  bool has_weights() const { return has_weights_; }
  // Whether a dry run has left cases out, which a run would prepare on disk.
  bool is_partial() const { return is_partial_; }
  const std::vector<std::unique_ptr<PreparedCase>>& cases() const { return cases_; }

 private:
  struct GridPatch {
    std::size_t number = 0;  // of the case
    Index3 origin{};
  };
  void add_cases(const DataOptions& data, bool dry_run, const StopRequested& stop_requested);
  void add_case(const CaseEntry& entry, const DataOptions& data, bool in_memory);
  void add_grid();
  Index3 draw_place(const PreparedCase& source, const Draw& draw) const;

  std::vector<std::unique_ptr<PreparedCase>> cases_;
  std::vector<GridPatch> grid_;  // empty: random patches
  std::vector<double> class_weights_;
  std::vector<std::int64_t> masked_channels_;
  bool is_partial_ = false;
  bool has_weights_ = false;  // of one case at least: then every sample has them
  LabelMap labels_;
  PatchOptions patch_;
  AugmentOptions augment_;
};

}  // namespace tandem
