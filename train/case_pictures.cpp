// Choosing planes and painting them.
#include "train/case_pictures.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tandem {
namespace {

// Array axes of a picture: rows and columns both run against the array (down, towards the back; to the
// patient's left is the right of the picture).
struct Plane {
  std::string_view name;
  std::size_t normal, rows, columns;
};
constexpr std::array<Plane, 3> kPlanes{{{"axial", 0, 1, 2}, {"coronal", 1, 0, 2}, {"sagittal", 2, 0, 1}}};
constexpr double kOverlay = 0.55, kUnlabelled = 0.5;

// Foreground voxels by index along each axis: of the truth, of the prediction where the truth has none.
std::array<std::vector<std::int64_t>, 3> foreground_profiles(const CaseView& view) {
  const bool has_truth = std::ranges::any_of(view.truth, [](std::int32_t cls) { return cls > 0; });
  const std::span<const std::int32_t> classes = has_truth ? view.truth : view.prediction;
  std::array<std::vector<std::int64_t>, 3> counts;
  for (std::size_t axis = 0; axis < 3; ++axis)
    counts[axis].resize(static_cast<std::size_t>(view.shape[axis]));
  std::size_t i = 0;
  for (std::size_t z = 0; z < counts[0].size(); ++z)
    for (std::size_t y = 0; y < counts[1].size(); ++y)
      for (std::size_t x = 0; x < counts[2].size(); ++x, ++i)
        if (classes[i] > 0) {
          ++counts[0][z];
          ++counts[1][y];
          ++counts[2][x];
        }
  return counts;
}

std::int64_t fullest(const std::vector<std::int64_t>& counts) {
  const auto most = std::max_element(counts.begin(), counts.end());
  return *most == 0 ? static_cast<std::int64_t>(counts.size()) / 2 : most - counts.begin();
}

// Places of a plane's pixels, row by row: in the volume, and in a box that is the plane.
struct PixelPlaces {
  std::vector<std::size_t> volume, box;
};

PixelPlaces places_of(const CaseView& view, const Plane& plane, std::int64_t index) {
  const std::array<std::int64_t, 3> strides{view.shape[1] * view.shape[2], view.shape[2], 1};
  const std::int64_t rows = view.shape[plane.rows], columns = view.shape[plane.columns];
  PixelPlaces places;
  for (std::int64_t row = rows - 1; row >= 0; --row)
    for (std::int64_t column = columns - 1; column >= 0; --column) {
      places.box.push_back(static_cast<std::size_t>(row * columns + column));
      places.volume.push_back(static_cast<std::size_t>(
          index * strides[plane.normal] + row * strides[plane.rows] + column * strides[plane.columns]));
    }
  return places;
}

Picture grey_picture(const CaseView& view, const Plane& plane, std::int64_t index,
                     const PixelPlaces& places) {
  const auto channels = static_cast<std::size_t>(view.channels);
  Index3 begin{}, size = view.shape;
  begin[plane.normal] = index;
  size[plane.normal] = 1;
  std::vector<float> box(places.box.size() * channels);
  view.read_image(begin, size, box);
  std::vector<float> sorted;
  for (const std::size_t place : places.box) sorted.push_back(box[place * channels]);
  std::sort(sorted.begin(), sorted.end());
  const float low = sorted[sorted.size() / 100], high = sorted[sorted.size() - 1 - sorted.size() / 100];
  const float scale = high > low ? 255 / (high - low) : 0;
  Picture picture(view.shape[plane.columns], view.shape[plane.rows]);
  for (std::size_t i = 0; i < places.box.size(); ++i) {
    const float value = (box[places.box[i] * channels] - low) * scale;
    const auto grey = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
    picture.pixels[i] = {grey, grey, grey};
  }
  return picture;
}

Picture painted(Picture picture, std::span<const std::int32_t> classes, const PixelPlaces& places) {
  for (std::size_t i = 0; i < places.volume.size(); ++i) {
    const std::int32_t cls = classes[places.volume[i]];
    if (cls == 0) continue;
    const Rgb color = cls < 0 ? Rgb{0, 0, 0} : class_color(cls);
    const double share = cls < 0 ? kUnlabelled : kOverlay;
    for (std::size_t c = 0; c < 3; ++c)
      picture.pixels[i][c] =
          static_cast<std::uint8_t>(std::lround(share * color[c] + (1 - share) * picture.pixels[i][c]));
  }
  return picture;
}

}  // namespace

std::vector<CasePicture> draw_case(const CaseView& view) {
  std::vector<CasePicture> pictures;
  if (voxel_count(view.shape) == 0) return pictures;
  const auto profiles = foreground_profiles(view);
  for (const Plane& plane : kPlanes) {
    if (view.shape[plane.rows] == 1 || view.shape[plane.columns] == 1) continue;
    const std::int64_t index = fullest(profiles[plane.normal]);
    const PixelPlaces places = places_of(view, plane, index);
    const Picture grey = grey_picture(view, plane, index, places);
    const auto extent = [&](std::size_t axis) {
      return static_cast<double>(view.shape[axis]) * view.spacing_mm[axis];
    };
    pictures.push_back({.plane = std::string(plane.name),
                        .index = index,
                        .png = {encode_png(grey), encode_png(painted(grey, view.truth, places)),
                                encode_png(painted(grey, view.prediction, places))},
                        .width_mm = extent(plane.columns),
                        .height_mm = extent(plane.rows)});
  }
  return pictures;
}

}  // namespace tandem
