// Files of predictions: labels or probabilities, NIfTI or HDF5, on the grid of the file that the case came
// from. docs/formats.md describes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/label_map.h"
#include "data/voxel_source.h"

namespace tandem {

// Error{kUsage} unless the name ends in .nii, .nii.gz, .h5, .hdf5, .hdf or .hd5.
void check_prediction_name(const std::filesystem::path& path);

// `classes`: one index per voxel of the case. NIfTI: on the grid of the image, with its affine, codes and
// units. HDF5: /predictions, on the grid of /raw for a case file, of the image for NIfTI, with its place in
// space as attributes. Voxels outside the case (a region was cut) are background. Values: output_values of
// the label map.
void write_prediction(const std::filesystem::path& path, const CaseInfo& info,
                      const std::vector<std::int32_t>& classes, const LabelMap& labels);

// The same for probabilities [K, Z, Y, X] in F32 (NIfTI: the classes are the fourth dimension); outside the
// case background has probability 1. With regions the channels are the regions, each with the probability of
// its own, and class_names and class_values those of the regions; outside the case all are 0.
void write_probabilities(const std::filesystem::path& path, const CaseInfo& info, const Volume& probabilities,
                         const LabelMap& labels);

}  // namespace tandem
