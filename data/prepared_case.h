// One case ready for a network: normalised image, class indices, and the index of its foreground; kept in
// memory or read from its file box by box.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/brick_file.h"
#include "data/class_index.h"
#include "data/label_map.h"
#include "data/normalize.h"
#include "data/options.h"
#include "data/resample.h"
#include "data/voxel_source.h"

namespace tandem {

class PreparedCase {
 public:
  // Reads the whole case once, slab by slab: statistics of the image, labels if it has any. With `in_memory`
  // it keeps what it read. With needs_whole_case it holds the prepared volume in any case: cut to the box of
  // voxels that are not 0, normalised, resampled (data/resample.h). Error{kData} naming
  // file and voxel (not finite), or file, values and counts (unknown labels); Error{kConfig} for
  // data.normalize of a channel that the case does not have.
  PreparedCase(std::unique_ptr<VoxelSource> source, const DataOptions& options, bool in_memory);

  // From a file of the disk cache; `info` is that of the case.
  PreparedCase(std::unique_ptr<BrickFile> bricks, const CaseInfo& info, const DataOptions& options);
  // Writes such a file.
  void write_bricks(const std::filesystem::path& path, const CacheKey& key) const;

  const CaseInfo& info() const { return info_; }
  // Of what read_box reads; info().geometry is that of the source.
  const Index3& shape() const { return plan_.to; }
  // How the prepared volume lies in the source: the box cut out, and its resampling.
  const Index3& crop_begin() const { return crop_begin_; }
  const ResamplePlan& plan() const { return plan_; }
  GridPlacement placement() const { return {info_.geometry.shape(), crop_begin_, plan_}; }
  bool on_source_grid() const { return placement().is_source(); }
  // The same of a case of which the header is known: data.crop_nonzero as if it cut nothing away.
  static GridPlacement largest_placement(const CaseInfo& info, const DataOptions& options);
  std::int64_t channels() const { return info().channels; }
  bool has_labels() const { return info().has_labels; }
  bool has_weights() const { return info().has_weights; }
  bool ignores() const { return labels_.ignores(); }
  std::int64_t classes() const { return labels_.classes(); }
  std::int64_t regions() const { return labels_.regions(); }
  bool in_memory() const { return in_memory_; }
  const ClassIndex& foreground() const { return foreground_; }
  const std::vector<ChannelScale>& scales() const { return scales_; }
  // Bytes a case of this size takes in memory, and about how many more while it is made.
  static std::int64_t memory_bytes(const CaseInfo& info, const DataOptions& options = {});
  static std::int64_t reading_bytes(const CaseInfo& info, const DataOptions& options);
  // Whether cases are prepared as a whole, so that no box can be read from their files: data.spacing,
  // data.crop_nonzero, or a masked channel.
  static bool needs_whole_case(const DataOptions& options);

  // The box of `size` at `begin`, which may reach beyond the volume: there the image is 0 (after
  // normalisation), the label background and the weight 1. image: [D, H, W, C]; label (class index, or
  // kIgnoredLabel) and weight: [D, H, W]; each empty to leave it out.
  void read_box(const Index3& begin, const Index3& size, std::span<float> image,
                std::span<std::int32_t> label, std::span<float> weight = {}) const;

  // Class indices (or kIgnoredLabel) of the whole case on the grid of the source; Error{kData} without
  // labels.
  std::vector<std::int32_t> source_labels() const;
  // Closes the source of a case in memory; source_labels is not to be called then.
  void release_source();

  // Voxel `k` (0 .. foreground().count(cls) - 1) of class `cls`: z, y, x.
  Index3 voxel_of_class(std::int64_t cls, std::int64_t k) const;

 private:
  struct Parts {
    std::span<float> image;
    std::span<std::int32_t> label;
    std::span<float> weight;
  };
  void read_inside(const Index3& begin, const Index3& size, const Parts& parts) const;
  void scan(const DataOptions& options);
  void keep_image();
  void prepare(const DataOptions& options);
  void prepare_image(const DataOptions& options);
  void prepare_labels();

  std::unique_ptr<VoxelSource> source_;
  std::unique_ptr<BrickFile> bricks_;
  CaseInfo info_;
  LabelMap labels_;
  ClassIndex foreground_;
  std::vector<ChannelScale> scales_;
  std::vector<float> image_;           // [Z, Y, X, C], if in memory
  std::vector<std::uint8_t> classes_;  // [Z, Y, X], if in memory
  std::vector<float> weights_;         // [Z, Y, X], if in memory and the case has them
  Index3 crop_begin_{};
  ResamplePlan plan_;  // from: the box cut out
  bool in_memory_;
};

}  // namespace tandem
