// Small case files whose values say where they are.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "data/case_file.h"
#include "data/options.h"

namespace tandem::testing {

inline Geometry plain_grid(const Index3& shape) {
  const Affine affine = affine_of_spacing({1, 1, 1});
  return Geometry(SourceGrid{shape, affine, nifti_space_of(affine)});
}

// Value of channel c at (z, y, x) = c * 10000 + (z * shape y + y) * shape x + x, label by `label_of`.
inline void write_counting_case(const std::filesystem::path& path, const Index3& shape,
                                const std::function<std::int32_t(const Index3&)>& label_of,
                                std::int64_t channels = 1) {
  Volume image{plain_grid(shape), channels, {}};
  LabelVolume labels{plain_grid(shape), {}};
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < voxel_count(shape); ++i)
      image.values.push_back(static_cast<float>(c * 10000 + i));
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x) labels.values.push_back(label_of({z, y, x}));
  write_case(path, path.stem().string(), image, &labels);
}

// Classes background 0, a 1, b 2, values as they are, no normalisation.
inline DataOptions plain_options(const std::vector<std::string>& train = {}, std::int64_t channels = 1) {
  DataOptions options;
  options.train = train;
  options.labels = {{"background", {0}}, {"a", {1}}, {"b", {2}}};
  for (std::int64_t c = 0; c < channels; ++c)
    options.normalize.push_back({.channel = c, .kind = NormalizeKind::kNone});
  return options;
}

}  // namespace tandem::testing
