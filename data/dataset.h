// What training data are to the loader: a number of samples, each a pure function of its index and of a draw.
// Where samples come from is the subject of the implementations (data/patch_dataset.h).
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor/tensor.h"
#include "data/volume.h"

namespace tandem {

// Names the random numbers of one sample: streams are RandomStream(seed, purpose, epoch, sample), so a sample
// does not depend on which thread makes it, or when.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0, sample = 0;
  std::int64_t slot = 0, batch_size = 1;  // place in its batch
};

struct Sample {
  Tensor image;  // F32 [1, C, D, H, W]; stored D, H, W, C
  Tensor label;  // I32 [1, 1, D, H, W]: one entry per row of the logits, or [1, R, D, H, W]: 0 or 1 per
                 // region; kIgnoredLabel: in no loss
  std::string id;
  Index3 origin{};  // of the patch in its case; negative where it is padded
  Tensor weight;    // F32 [1, 1, D, H, W]: of each voxel in the loss; undefined where no case has weights
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  // Samples of an epoch, at least 1.
  virtual std::int64_t size() const = 0;
  // Sample `index` of 0..size()-1. Called by several threads at a time; opens no parallel region.
  virtual Sample get(std::int64_t index, const Draw& draw) const = 0;
  // What a message calls sample `index`: its file where it has one.
  virtual std::string name(std::int64_t index) const { return "sample " + std::to_string(index); }
};

}  // namespace tandem
