// Back to the input's grid, and into a file.
#include "data/prediction_file.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/files.h"
#include "data/case_file.h"
#include "data/nifti.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPredictions = "/predictions";
constexpr std::int64_t kChunkEdge = 32;

// The grid of the file that voxels were read from.
Geometry grid_of_file(const fs::path& output, const CaseInfo& info) {
  const bool own_grid = is_case_file_name(output) && is_case_file_name(info.file);
  return own_grid ? info.geometry : Geometry(info.geometry.source());
}

// One file: /predictions and what it needs to be understood.
class PredictionHdf5 {
 public:
  PredictionHdf5(const CaseInfo& info, const LabelMap& labels)
      : info_(info), labels_(labels), names_(labels.names()), values_(labels.output_values()) {}

  // Its channels are the regions: their names, and the value that a label map has for each.
  void name_regions() {
    names_.assign(labels_.output_names().begin() + 1, labels_.output_names().end());
    std::vector<std::int32_t> values;
    for (std::int64_t r = 0; r < labels_.regions(); ++r)
      values.push_back(values_.at(static_cast<std::size_t>(labels_.region_class(r))));
    values_ = std::move(values);
  }

  template <class T>
  void write(const fs::path& path, const Geometry& grid, std::span<const T> values) {
    const Index3& size = grid.shape();
    std::vector<std::int64_t> shape(size.begin(), size.end()), chunk;
    if (static_cast<std::int64_t>(values.size()) != voxel_count(size))
      shape.insert(shape.begin(), static_cast<std::int64_t>(values.size()) / voxel_count(size));
    for (const std::int64_t n : shape) chunk.push_back(std::min(n, kChunkEdge));
    if (shape.size() == 4) chunk.front() = 1;
    Hdf5File file = Hdf5File::create_image();
    file.write<T>(kPredictions, shape, values, {.chunk = chunk, .deflate = 1, .shuffle = true});
    write_geometry(file, kPredictions, grid);
    file.write_attribute(kPredictions, "case_id", std::vector<std::string>{info_.id});
    file.write_attribute(kPredictions, "class_names", names_);
    file.write_attribute(kPredictions, "class_values",
                         std::vector<std::int64_t>(values_.begin(), values_.end()));
    write_file_atomically(path, file.image());
  }

 private:
  const CaseInfo& info_;
  const LabelMap& labels_;
  std::vector<std::string> names_;
  std::vector<std::int32_t> values_;
};

}  // namespace

void check_prediction_name(const fs::path& path) {
  if (!is_nifti_name(path) && !is_case_file_name(path))
    fail(ErrorKind::kUsage,
         "[predict] --output: got {}, expected a name that ends in .nii, .nii.gz, .h5, .hdf5, .hdf or .hd5",
         path.string());
}

void write_prediction(const fs::path& path, const CaseInfo& info, const std::vector<std::int32_t>& classes,
                      const LabelMap& labels) {
  const std::vector<std::int32_t> values = labels.output_values();
  check_internal(classes.size() == static_cast<std::size_t>(voxel_count(info.geometry.shape())),
                 "a prediction of another size");
  LabelVolume volume{info.geometry, {}};
  volume.values.reserve(classes.size());
  for (const std::int32_t cls : classes) volume.values.push_back(values.at(static_cast<std::size_t>(cls)));
  const LabelVolume whole = on_grid(volume, grid_of_file(path, info), values.front());
  if (is_nifti_name(path)) return write_nifti(path, whole);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PredictionHdf5 file(info, labels);
  if (*low >= 0 && *high <= std::numeric_limits<std::uint16_t>::max())
    file.write<std::uint16_t>(path, whole.geometry,
                              std::vector<std::uint16_t>(whole.values.begin(), whole.values.end()));
  else
    file.write<std::int32_t>(path, whole.geometry, whole.values);
}

void write_probabilities(const fs::path& path, const CaseInfo& info, const Volume& probabilities,
                         const LabelMap& labels) {
  const std::int64_t regions = labels.regions();
  check_internal(probabilities.channels == (regions > 0 ? regions : labels.classes()),
                 "probabilities of another number of classes or regions");
  const Geometry grid = grid_of_file(path, info);
  const auto voxels = static_cast<std::ptrdiff_t>(voxel_count(probabilities.geometry.shape()));
  Volume whole{grid, probabilities.channels, {}};
  for (std::int64_t k = 0; k < probabilities.channels; ++k) {
    const auto first = probabilities.values.begin() + k * voxels;
    const Volume plane = on_grid({probabilities.geometry, 1, {first, first + voxels}}, grid,
                                 k == 0 && regions == 0 ? 1.0f : 0.0f);
    whole.values.insert(whole.values.end(), plane.values.begin(), plane.values.end());
  }
  if (is_nifti_name(path)) return write_nifti(path, whole);
  PredictionHdf5 file(info, labels);
  if (regions > 0) file.name_regions();
  file.write<float>(path, grid, whole.values);
}

}  // namespace tandem
