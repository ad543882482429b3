// Whole cases through the sliding window.
#include "data/prediction.h"

#include "core/base/error.h"
#include "data/nifti.h"

namespace tandem {
namespace {

template <class Options>
WindowOptions shared_options(const Options& options, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  WindowOptions window{.patch = patch.size, .overlap = options.overlap, .blend = options.blend};
  if (options.mirror_tta) window.mirror_axes = axes_of(augment.mirror);
  return window;
}

}  // namespace

WindowOptions window_options(const PredictOptions& predict, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  WindowOptions window = shared_options(predict, patch, augment);
  window.batch_size = predict.batch_size;
  return window;
}

WindowOptions window_options(const ValidateOptions& validate, const PatchOptions& patch,
                             const AugmentOptions& augment) {
  return shared_options(validate, patch, augment);
}

PreparedCase prepare_whole_case(std::unique_ptr<VoxelSource> source, const DataOptions& data) {
  const bool fits =
      data.cache == CacheKind::kRam && PreparedCase::memory_bytes(source->info()) <= data.cache_bytes;
  return PreparedCase(std::move(source), data, fits);
}

LogitVolume predict_case(const PreparedCase& source, const WindowOptions& options, const PatchModel& model) {
  const BoxReader read = [&](const Index3& begin, const Index3& size, std::span<float> values) {
    source.read_box(begin, size, values, {});
  };
  return sliding_window(source.shape(), source.channels(), read, options, model);
}

std::vector<std::int32_t> reference_labels(const PreparedCase& source) {
  if (!source.has_labels())
    fail(ErrorKind::kData, "[data] {}: got a case without labels, expected /label to compare with",
         source.info().file);
  std::vector<float> image(static_cast<std::size_t>(voxel_count(source.shape()) * source.channels()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(voxel_count(source.shape())));
  source.read_box({0, 0, 0}, source.shape(), image, labels);
  return labels;
}

void write_prediction(const std::filesystem::path& path, const CaseInfo& info,
                      const std::vector<std::int32_t>& classes, const LabelMap& labels) {
  const std::vector<std::int32_t> values = labels.output_values();
  check_internal(classes.size() == static_cast<std::size_t>(voxel_count(info.geometry.shape())),
                 "a prediction of another size");
  LabelVolume volume{info.geometry, {}};
  volume.values.reserve(classes.size());
  for (const std::int32_t cls : classes) volume.values.push_back(values.at(static_cast<std::size_t>(cls)));
  const LabelVolume whole = on_grid(volume, Geometry(info.geometry.source()), values.front());
  write_nifti(path, whole);
}

}  // namespace tandem
