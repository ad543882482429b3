// Where a training patch lies: at random, or around a foreground voxel. Pure functions of a random stream.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "data/options.h"
#include "data/prepared_case.h"

namespace tandem {

// True for the samples of a batch that must contain foreground: slot >= round(batch_size * (1 - foreground)),
// ties to even (nnU-Net's oversample_foreground_percent). Where that would be all of the batch or nothing of
// it, each sample draws with the probability `foreground` instead: a share of 0.75 in batches of two is not a
// share of 1.
bool is_forced_foreground(std::int64_t slot, std::int64_t batch_size, double foreground,
                          RandomStream& stream);

// First voxel of a patch of `size` around `centre`, moved so that it lies within `shape` at both ends; a
// volume smaller than the patch is centred in it (a negative origin: the patch reads zeros there).
Index3 clamped_origin(const Index3& centre, const Index3& size, const Index3& shape);

// What is wrong with the names in options.class_weights: "got 'liver', expected foreground classes of
// data.labels: a, b"; nothing if they are all among `classes`, whose first is the background.
std::optional<std::string> class_weights_fault(const PatchOptions& options,
                                               std::span<const std::string> classes);
// options.class_weights per class index, 1 for classes not named; empty without any. Error{kConfig} for a
// name that is no foreground class.
std::vector<double> patch_class_weights(const PatchOptions& options, const LabelMap& labels);

// forced: a class present in the case (class_first: all alike or by `weights` per class index, else by their
// voxels), one of its voxels, clamped_origin around it; else, and for a case without foreground (or none of a
// weight above 0), uniform over all places, or with an ignore label around a voxel that somebody labelled.
Index3 draw_origin(const PreparedCase& source, const PatchOptions& options, bool forced, RandomStream& stream,
                   std::span<const double> weights = {});

}  // namespace tandem
