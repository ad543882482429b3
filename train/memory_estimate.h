// How much memory a training step of a job will take, told before it starts, and whether that is there; its
// validation is train/validation_memory. What was taken is the allocator's subject.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data/volume.h"
#include "train/job.h"

namespace tandem {

// Bytes as the allocator takes them from the system, rounding and cached blocks included. Linear in batch
// times voxels of a patch: with every op channels-last and dense, so is a step.
struct StepMemory {
  double weights = 0;           // masters, 16-bit copies, gradients, moments: whatever the patch
  double fixed = 0;             // packed weights and the like
  double step_per_voxel = 0;    // activations, their gradients, workspace
  double loader_per_voxel = 0;  // batches that are ready, in work or in use
  std::int64_t cases = 0;       // training cases kept in memory
  // A forward pass without gradients over one window, beside the weights: packed weights and what exchanges
  // the running mean; activations, image and logits.
  double forward_fixed = 0, forward_per_voxel = 0;

  double of_loader(const Index3& patch, std::int64_t batch) const;
  double of_step(const Index3& patch, std::int64_t batch) const;
  double of_forward(const Index3& patch) const;
  double total(const Index3& patch, std::int64_t batch) const;
};

// Trains a copy of the job's model for a step each on one and on two patches of noise, as small as the model
// allows (from 32 voxels an axis on), lets it predict as many, and draws lines through the bytes reserved.
// Nothing of it stays. Sets the process's compute threads (make_session). Without `cases`.
StepMemory measure_step_memory(const JobOptions& job, std::int64_t in_channels);

// "4.1 GiB (weights and moments 12.3 MiB, step 3.9 GiB, loader 130.0 MiB, cases 60.0 MiB)"
std::string memory_text(const StepMemory& memory, const Index3& patch, std::int64_t batch);

// Throws Error{kResource} if the job's step cannot fit into `free_bytes` even if the estimate is a quarter
// too high, and says what would fit; warns where it is only near.
void expect_step_fits(const StepMemory& memory, const JobOptions& job, std::int64_t free_bytes);

// All of it for a job on this machine, its first training case telling the channels; with `validates` its
// validation too. Jobs that are small for this machine are not measured.
void expect_memory_for(const JobOptions& job, bool validates);

// "4.1 GiB"
std::string memory_size_text(double bytes);
// The job's patch with its longest axes shortened until `fits` says yes; nothing if the smallest does not, or
// if the model has one size only.
std::optional<Index3> fitting_patch(const JobOptions& job, const std::function<bool(const Index3&)>& fits);

}  // namespace tandem
