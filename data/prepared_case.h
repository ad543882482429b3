// One case ready for a network: normalised image, class indices, and the index of its foreground; kept in
// memory or read from its file box by box.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/class_index.h"
#include "data/label_map.h"
#include "data/normalize.h"
#include "data/options.h"
#include "data/voxel_source.h"

namespace tandem {

class PreparedCase {
 public:
  // Reads the whole case once, slab by slab: statistics of the image, labels if it has any. With `in_memory`
  // it keeps what it read, not the source. Error{kData} naming file and voxel (not finite), or file, values
  // and counts (unknown labels); Error{kConfig} for data.normalize of a channel that the case does not have.
  PreparedCase(std::unique_ptr<VoxelSource> source, const DataOptions& options, bool in_memory);

  const CaseInfo& info() const { return info_; }
  const Index3& shape() const { return info().geometry.shape(); }
  std::int64_t channels() const { return info().channels; }
  bool has_labels() const { return info().has_labels; }
  const ClassIndex& foreground() const { return foreground_; }
  const std::vector<ChannelScale>& scales() const { return scales_; }
  // Bytes a case of this size takes in memory.
  static std::int64_t memory_bytes(const CaseInfo& info);

  // The box of `size` at `begin`, which may reach beyond the volume: there the image is 0 (after
  // normalisation) and the label background. image: [D, H, W, C]; label: [D, H, W], empty to leave it out.
  void read_box(const Index3& begin, const Index3& size, std::span<float> image,
                std::span<std::int32_t> label) const;

  // Voxel `k` (0 .. foreground().count(cls) - 1) of class `cls`: z, y, x.
  Index3 voxel_of_class(std::int64_t cls, std::int64_t k) const;

 private:
  void read_inside(const Index3& begin, const Index3& size, std::span<float> image,
                   std::span<std::int32_t> label) const;
  void scan(const DataOptions& options);

  std::unique_ptr<VoxelSource> source_;  // null if in memory
  CaseInfo info_;
  LabelMap labels_;
  ClassIndex foreground_;
  std::vector<ChannelScale> scales_;
  std::vector<float> image_;           // [Z, Y, X, C], if in memory
  std::vector<std::uint8_t> classes_;  // [Z, Y, X], if in memory
  bool in_memory_;
};

}  // namespace tandem
