// How much memory a training step of a job will take, told before it starts, and whether that is there. What
// was taken is the allocator's subject; how a step works is train/trainer's.
#pragma once

#include <cstdint>
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

  double of_loader(const Index3& patch, std::int64_t batch) const;
  double of_step(const Index3& patch, std::int64_t batch) const;
  double total(const Index3& patch, std::int64_t batch) const;
};

// Trains a copy of the job's model for a step each on one and on two patches of noise, as small as the model
// allows (from 16 voxels an axis on), and draws a line through the bytes in use. Nothing of it stays. Sets
// the process's compute threads (make_session). Without `cases`.
StepMemory measure_step_memory(const JobOptions& job, std::int64_t in_channels);

// "4.1 GiB (weights and moments 12.3 MiB, step 3.9 GiB, loader 130.0 MiB, cases 60.0 MiB)"
std::string memory_text(const StepMemory& memory, const Index3& patch, std::int64_t batch);

// Throws Error{kResource} if the job's step cannot fit into `free_bytes` even if the estimate is a quarter
// too high, and says what would fit; warns where it is only near.
void expect_step_fits(const StepMemory& memory, const JobOptions& job, std::int64_t free_bytes);

// All of it for a job on this machine, its first training case telling the channels. Jobs that are small for
// this machine are not measured.
void expect_memory_for(const JobOptions& job);

}  // namespace tandem
