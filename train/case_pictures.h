// Slices of a case with its truth and its prediction as pictures. Where they are kept is validation_folder's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/volume.h"
#include "train/png.h"

namespace tandem {

// A case in canonical orientation: x to the right, y to the front, z up.
struct CaseView {
  Index3 shape{};
  std::array<double, 3> spacing_mm{1, 1, 1};  // z, y, x
  std::int64_t channels = 1;                  // the first one is shown
  // Fills values [size z, y, x, channels] of the box at `begin`.
  std::function<void(const Index3& begin, const Index3& size, std::span<float> values)> read_image;
  std::span<const std::int32_t> truth, prediction;  // class indices [Z, Y, X]; negative: nobody labelled it
};

// One plane: the image alone, with the truth and with the prediction, in one row from left to right.
struct CasePicture {
  std::string plane;               // "axial", "coronal", "sagittal"
  std::int64_t index = 0;          // along the plane's axis
  std::array<std::string, 3> png;  // image, truth, prediction
  double width_mm = 0, height_mm = 0;
};

// The axial, coronal and sagittal plane that hold the most foreground of the truth (without any: of the
// prediction; without that: the middle ones); an axis of one voxel has no plane. As radiologists look at
// them: patient's right on the left, front and head up. Grey from the 1st to the 99th percentile of the
// plane; classes in class_color at 55 %; unlabelled voxels are darkened.
std::vector<CasePicture> draw_case(const CaseView& view);

}  // namespace tandem
