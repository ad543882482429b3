// Opening of cases, and volumes in memory as a source.
#include "data/voxel_source.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "data/case_file.h"
#include "data/case_probe.h"
#include "data/nifti.h"

namespace tandem {
namespace {

constexpr double kSameGridMm = 1e-3;

Geometry oriented_grid(const Geometry& stored, Orientation orientation) {
  return orientation == Orientation::kKeep ? stored : stored.canonical();
}

template <class V>
V oriented(V stored, Orientation orientation) {
  const Geometry grid = oriented_grid(stored.geometry, orientation);
  return grid.axes() == stored.geometry.axes() ? std::move(stored) : on_grid(stored, grid);
}

template <class T>
void copy_box(const std::vector<T>& values, const Index3& shape, const Index3& begin, const Index3& size,
              std::span<T> box) {
  const auto channels = static_cast<std::int64_t>(values.size()) / voxel_count(shape);
  auto target = box.begin();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t z = begin[0]; z < begin[0] + size[0]; ++z)
      for (std::int64_t y = begin[1]; y < begin[1] + size[1]; ++y) {
        const auto row = values.begin() + ((c * shape[0] + z) * shape[1] + y) * shape[2] + begin[2];
        target = std::copy(row, row + size[2], target);
      }
}

class NiftiSource final : public VoxelSource {
 public:
  NiftiSource(const CaseEntry& entry, Orientation orientation)
      : image_(read_channels(entry.images, orientation)) {
    info_.file = entry.file();
    info_.id = entry.id;
    info_.geometry = image_.geometry;
    info_.channels = image_.channels;
    info_.has_labels = !entry.label.empty();
    if (info_.has_labels) labels_ = read_labels_of(entry.label, image_, entry.file(), orientation);
  }
  const CaseInfo& info() const override { return info_; }
  void read_image(const Index3& begin, const Index3& size, std::span<float> values) const override {
    copy_box(image_.values, info_.geometry.shape(), begin, size, values);
  }
  void read_labels(const Index3& begin, const Index3& size, std::span<std::int32_t> values) const override {
    if (!info_.has_labels)
      fail(ErrorKind::kData, "[nifti] {}: got an image, expected a case with labels", info_.file);
    copy_box(labels_.values, info_.geometry.shape(), begin, size, values);
  }

  void release_image() override { std::vector<float>().swap(image_.values); }

 private:
  Volume image_;
  LabelVolume labels_;
  CaseInfo info_;
};

}  // namespace

void expect_same_grid(const Geometry& grid, const Geometry& other, const std::string& file,
                      const std::string& other_file) {
  if (grid.shape() != other.shape())
    fail(ErrorKind::kData, "[nifti] {}: shape z, y, x: got {}, expected {} as {}", other_file,
         to_string(other.shape()), to_string(grid.shape()), file);
  const Affine a = grid.affine(), b = other.affine();
  for (std::size_t i = 0; i < 12; ++i)
    if (std::abs(a[i] - b[i]) > kSameGridMm)
      fail(ErrorKind::kData, "[nifti] {}: affine row {} column {}: got {}, expected {} as {}", other_file,
           i / 4, i % 4, b[i], a[i], file);
}

Volume read_channels(const std::vector<std::string>& files, Orientation orientation) {
  Volume result;
  for (const std::string& file : files) {
    Volume image = oriented(read_nifti(file), orientation);
    if (&file == &files.front()) {
      result = std::move(image);
      continue;
    }
    expect_same_grid(result.geometry, image.geometry, files.front(), file);
    result.channels += image.channels;
    result.values.insert(result.values.end(), image.values.begin(), image.values.end());
  }
  return result;
}

LabelVolume read_labels_of(const std::string& file, const Volume& image, const std::string& image_file,
                           Orientation orientation) {
  LabelVolume labels = oriented(read_nifti_labels(file), orientation);
  expect_same_grid(image.geometry, labels.geometry, image_file, file);
  labels.geometry = image.geometry;  // one source for both: that of the image
  return labels;
}

CaseInfo read_case_info(const CaseEntry& entry, Orientation orientation) {
  if (is_case_file_name(entry.file())) {
    probe_case_file(entry.file(), false);
    return CaseFile(entry.file()).info();
  }
  CaseInfo info{.file = entry.file(), .id = entry.id, .channels = 0, .has_labels = !entry.label.empty()};
  for (const std::string& file : entry.images) {
    const NiftiInfo image = read_nifti_info(file);
    if (info.channels == 0) info.geometry = oriented_grid(image.geometry, orientation);
    info.channels += image.channels;
  }
  return info;
}

std::unique_ptr<VoxelSource> open_case(const CaseEntry& entry, Orientation orientation) {
  if (is_case_file_name(entry.file())) {
    probe_case_file(entry.file(), true);
    return std::make_unique<CaseFile>(entry.file());
  }
  return std::make_unique<NiftiSource>(entry, orientation);
}

}  // namespace tandem
