// The data part of a job: data, augment, patch, validate, predict. Only option values and their descriptions;
// what they do is said where they are used (label_map, normalize, patch_sampler, augment, sliding_window).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/fields.h"

namespace tandem {

// One class and the values of the label files that belong to it.
struct LabelClass {
  std::string name;
  std::vector<std::int64_t> values;
  friend bool operator==(const LabelClass&, const LabelClass&) = default;
};

enum class OtherLabels { kError, kBackground };
enum class Orientation { kCanonical, kKeep };
enum class NormalizeKind { kZscore, kCt, kMinmax, kPercentile, kNone };
enum class PatchSampling { kRandom, kGrid };
enum class CacheKind { kRam, kDisk, kNone };
enum class BlendKind { kGaussian, kConstant };
enum class EmptyPolicy { kWorst, kSkip };
enum class PredictionKind { kLabels, kProbabilities };
enum class PostprocessKind { kNone, kKeepLargest, kAuto };

struct SplitOptions {
  std::optional<std::string> file;
  std::optional<std::int64_t> folds;
  std::int64_t fold = 0;
  std::optional<std::vector<double>> ratios;
  std::optional<std::string> group;

  bool active() const { return file || folds || ratios; }
};

struct NormalizeOptions {
  std::int64_t channel = 0;
  NormalizeKind kind = NormalizeKind::kZscore;
  std::optional<std::array<double, 2>> clip;
  std::optional<double> mean, std;  // kCt; nullopt: by the training set (data/fingerprint.h)
  bool masked = false;              // by the voxels of data/nonzero_mask alone; 0 outside of them
  friend bool operator==(const NormalizeOptions&, const NormalizeOptions&) = default;
};

struct DataOptions {
  std::string format = "hdf5";
  std::vector<std::string> train, validation, test;
  Orientation orientation = Orientation::kCanonical;
  std::vector<LabelClass> labels;  // class index = place in the list; 0 is background
  OtherLabels other_labels = OtherLabels::kError;
  std::optional<std::int64_t> ignore_label;
  std::vector<LabelClass> regions;          // multi-label targets: values of the files, which may overlap
  std::vector<std::int64_t> region_values;  // written for each region; empty: see fields()
  SplitOptions split;
  std::optional<std::array<double, 3>> spacing;  // z, y, x in mm; nullopt: keep
  bool crop_nonzero = false;
  std::vector<NormalizeOptions> normalize;  // channels not named: z-score
  CacheKind cache = CacheKind::kRam;
  std::int64_t cache_bytes = std::int64_t{8} << 30;
  std::optional<std::string> cache_folder;
  std::optional<std::int64_t> workers;  // nullopt: auto
  std::int64_t prefetch = 2;

  std::int64_t classes() const { return static_cast<std::int64_t>(labels.size()); }
  // Channels of the network's output.
  std::int64_t outputs() const {
    return regions.empty() ? classes() : static_cast<std::int64_t>(regions.size());
  }
};

struct AugmentProbability {
  double rotate = 0.2, scale = 0.2, elastic = 0.2, noise = 1, blur = 0.2, brightness = 1, contrast = 0.15,
         low_resolution = 0.25, gamma_inverted = 0.1, gamma = 0.3, mirror = 0.5;
};

struct AugmentOptions {
  std::vector<std::string> mirror;  // of "z", "y", "x"
  double rotate_deg = 0;
  std::optional<std::array<double, 2>> scale,
      elastic;  // elastic: standard deviation of shifts, distance of points
  std::optional<std::array<double, 2>> noise_std,  // both the same: always that
      blur_sigma, brightness, contrast, gamma, low_resolution;
  AugmentProbability probability;
};

struct PatchOptions {
  std::array<std::int64_t, 3> size{64, 64, 64};
  PatchSampling sampling = PatchSampling::kRandom;
  // kRandom
  double foreground = 0.33;
  bool class_first = true;
  std::vector<std::pair<std::string, double>> class_weights;  // class not named: 1
  // kGrid
  std::optional<std::array<std::int64_t, 3>> stride;  // nullopt: size
  std::optional<double> min_foreground;
  double slack = 0;
};

// Mirrored copies whose logits are averaged: off, or along axes; without axes those of augment.mirror.
struct MirrorTta {
  bool on = false;
  std::optional<std::vector<std::string>> axes;
};

struct ValidateOptions {
  std::int64_t every = 200;
  double overlap = 0.5;
  BlendKind blend = BlendKind::kGaussian;
  MirrorTta mirror_tta;
  std::vector<std::string> metrics{"dice", "iou"};
  double nsd_mm = 1;
  EmptyPolicy empty = EmptyPolicy::kWorst;
};

struct PredictOptions {
  double overlap = 0.5;
  BlendKind blend = BlendKind::kGaussian;
  MirrorTta mirror_tta{.on = true};
  std::int64_t batch_size = 1;
  PredictionKind save = PredictionKind::kLabels;
  PostprocessKind postprocess = PostprocessKind::kNone;
  std::vector<std::string> ensemble;  // run folders
};

Fields fields(SplitOptions& options);
Fields fields(NormalizeOptions& options);
Fields fields(DataOptions& options);
Fields fields(AugmentProbability& options);
Fields fields(AugmentOptions& options);
Fields fields(PatchOptions& options);
Fields fields(ValidateOptions& options);
Fields fields(PredictOptions& options);

// A rule of `key`: each of z, y, x at most once, and no other word.
void check_axes(const std::vector<std::string>& axes, std::string_view key, ErrorList& errors);
// Array axes (0 z, 1 y, 2 x) of names such as augment.mirror.
std::vector<int> axes_of(const std::vector<std::string>& names);

}  // namespace tandem
