// Intensities of the foreground of a training set, and the normalisation that follows from them (nnU-Net's
// fingerprint). Never of test cases, nor of validation cases but those of folds. The normalisation itself is
// data/normalize.
#pragma once

#include <vector>

#include "data/case_list.h"
#include "data/options.h"
#include "data/reading_stop.h"

namespace tandem {

struct ChannelFingerprint {
  double mean = 0, std = 0, low = 0, high = 0;  // low, high: percentiles 0.5 and 99.5
  std::int64_t voxels = 0;                      // used
};

// Of voxels of any class but background (and ignored ones), the same number of each case, at most 10^7 in
// all, evenly spaced within a case. Error{kData} if there is no foreground voxel, or for different numbers of
// channels; Error{kStopped} when `stop_requested` says so between two cases.
std::vector<ChannelFingerprint> measure_fingerprint(const std::vector<CaseEntry>& cases,
                                                    const DataOptions& data,
                                                    const StopRequested& stop_requested = {});

// `data` with the numbers that its normalisation lacks: mean, std and, where it is not given, clip of
// channels of kind ct. Reads the training cases if there are any such channels; with data.split.file or
// folds those for validation too: all folds have the same numbers, so their models can be averaged.
DataOptions with_fingerprint(const DataOptions& data, const StopRequested& stop_requested = {});

}  // namespace tandem
