// Everything that is wrong with the files of a data set, found in one go: `tandem data check`. What a single
// reader refuses is in case_file, nifti and prepared_case; here nothing stops at the first fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/options.h"

namespace tandem {

// kError: training refuses it or learns from something false. kWarning: training goes on; look at it.
enum class Severity { kError, kWarning };

struct Finding {
  Severity severity = Severity::kError;
  std::string file;  // "": about the whole data set
  std::string text;
};

struct CheckReport {
  std::int64_t cases = 0;
  std::int64_t unlabelled = 0;    // of files without a job: no fault of theirs, but nothing to train on
  std::string first_unlabelled;   // one of these files
  std::vector<Finding> findings;  // in the order of the cases, then those about the whole set
  std::int64_t errors() const;
};

// Opens and reads every case of data.train, data.validation and data.test. Errors: files that cannot be read
// (truncated or damaged ones too), voxels that are not finite (first and count), label values that
// data.labels does not name (each with count and first voxel), image, channels and label map on different
// grids, different numbers of channels, no label map in training or validation, the same case or the same
// image in training and another set. Warnings: no foreground voxel, a constant image, the same image twice in
// training, different orientations, and classes whose names say left or right while augment.mirror has x.
// Voxels are z, y, x as stored.
CheckReport check_data(const DataOptions& data, const AugmentOptions& augment);

// The same for files without a job: what needs data.labels or knows of sets is left out.
CheckReport check_files(const std::vector<std::string>& patterns);

}  // namespace tandem
