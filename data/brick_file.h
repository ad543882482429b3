// A prepared case on disk in bricks of 32^3 voxels that are read one by one: data larger than memory. The
// cache file of data/case_cache; what is in it, and when it is made, is said there.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/class_index.h"
#include "data/normalize.h"
#include "data/volume.h"

namespace tandem {

using CacheKey = std::array<std::uint64_t, 2>;  // XXH3-128 of preparation and source files

// What a brick file holds beside its voxels.
struct BrickInfo {
  Index3 shape{};
  std::int64_t channels = 1;
  bool has_labels = false, has_weights = false;
  std::vector<ChannelScale> scales;
  ClassIndex foreground;
};

// Voxels of a box: image [D, H, W, C], classes and weights [D, H, W]; empty where the case has none.
struct BrickParts {
  std::span<float> image;
  std::span<std::uint8_t> classes;
  std::span<float> weights;
};
using BrickSource = std::function<void(const Index3& begin, const Index3& size, const BrickParts& parts)>;

// Any thread may read. Little-endian: "TDBRICK1", digest of what follows up to the voxels, CacheKey, bytes of
// the file, offset of the voxels, shape, channels, flags, words of the class index; scales, class index; then
// bricks in order z, y, x, all of one size: digest, image, weights, classes. Voxels beyond the volume are
// zeros.
class BrickFile {
 public:
  // The file at `path` if it is there, whole and made for `key`; else nothing.
  static std::unique_ptr<BrickFile> open(const std::filesystem::path& path, const CacheKey& key);
  // Writes it: temporary file beside it, fsync, rename. Reads from `source` one layer of bricks at a time.
  // Error{kResource} if the disk is too small or refuses.
  static void write(const std::filesystem::path& path, const CacheKey& key, const BrickInfo& info,
                    const BrickSource& source);
  // Bytes of a file with such content, without scales and class index.
  static std::int64_t voxel_bytes(const BrickInfo& info);

  ~BrickFile();
  BrickFile(const BrickFile&) = delete;
  BrickFile& operator=(const BrickFile&) = delete;

  const BrickInfo& info() const { return info_; }
  // The box, which lies within the volume; parts may be empty to leave them out. Error{kData} for a brick
  // whose digest is wrong, Error{kResource} if it cannot be read.
  void read(const Index3& begin, const Index3& size, const BrickParts& parts) const;

 private:
  BrickFile() = default;
  void read_brick(const Index3& brick, std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t voxels_at_ = 0;
  BrickInfo info_;
};

}  // namespace tandem
