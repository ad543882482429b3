// The data part of a job: data, augment, patch, validate, predict. Only option values and their descriptions;
// what they do is said where they are used (label_map, normalize, patch_sampler, augment, sliding_window).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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
enum class NormalizeKind { kZscore, kCt, kMinmax, kNone };
enum class CacheKind { kRam, kNone };
enum class BlendKind { kGaussian, kConstant };
enum class EmptyPolicy { kWorst, kSkip };
enum class PredictionKind { kLabels, kProbabilities };
enum class PostprocessKind { kNone, kKeepLargest, kAuto };

struct NormalizeOptions {
  std::int64_t channel = 0;
  NormalizeKind kind = NormalizeKind::kZscore;
  std::optional<std::array<double, 2>> clip;
  double mean = 0, std = 1;  // kCt
  friend bool operator==(const NormalizeOptions&, const NormalizeOptions&) = default;
};

struct DataOptions {
  std::string format = "hdf5";
  std::vector<std::string> train, validation, test;
  Orientation orientation = Orientation::kCanonical;
  std::vector<LabelClass> labels;  // class index = place in the list; 0 is background
  OtherLabels other_labels = OtherLabels::kError;
  std::vector<NormalizeOptions> normalize;  // channels not named: z-score
  CacheKind cache = CacheKind::kRam;
  std::int64_t cache_bytes = std::int64_t{8} << 30;
  std::optional<std::int64_t> workers;  // nullopt: auto
  std::int64_t prefetch = 2;

  std::int64_t classes() const { return static_cast<std::int64_t>(labels.size()); }
};

struct AugmentProbability {
  double mirror = 0.5, noise = 1, brightness = 1;
};

struct AugmentOptions {
  std::vector<std::string> mirror;  // of "z", "y", "x"
  double noise_std = 0;
  std::optional<std::array<double, 2>> brightness;
  AugmentProbability probability;
};

struct PatchOptions {
  std::array<std::int64_t, 3> size{64, 64, 64};
  double foreground = 0.33;
  bool class_first = true;
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

Fields fields(NormalizeOptions& options);
Fields fields(DataOptions& options);
Fields fields(AugmentProbability& options);
Fields fields(AugmentOptions& options);
Fields fields(PatchOptions& options);
Fields fields(ValidateOptions& options);
Fields fields(PredictOptions& options);

// Array axes (0 z, 1 y, 2 x) of names such as augment.mirror.
std::vector<int> axes_of(const std::vector<std::string>& names);

}  // namespace tandem
