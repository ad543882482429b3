// How much memory the validation of a job takes beside the training state, told before the run starts, and
// whether that is there. The training step and what is measured of the model are train/memory_estimate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/voxel_source.h"
#include "train/memory_estimate.h"

namespace tandem {

// Bytes while the case that takes most is validated. Activations of a training step are given back before.
struct ValidationMemory {
  std::string file;
  Index3 shape{};
  double state = 0;    // weights and moments, batches of the loader, training cases
  double forward = 0;  // of a window
  double sums = 0;     // logits of unfinished lines (prediction_bytes)
  double volumes = 0;  // the case, its labels, and distances where metrics need them; not the allocator's
  double total() const { return state + forward + sums + volumes; }
};

// The most that one of `cases` takes; `memory` is what was measured of the job. Volumes are bounds: a case
// that data.crop_nonzero cuts, and masks that are smaller than the case, take less.
ValidationMemory validation_memory(const StepMemory& memory, const JobOptions& job,
                                   const std::vector<CaseInfo>& cases);

// Throws Error{kResource} if the validation cannot fit into `free_bytes` even if the estimate is a quarter
// too high, and says what to change; warns where it is only near.
void expect_validation_fits(const StepMemory& memory, const JobOptions& job,
                            const std::vector<CaseInfo>& cases, std::int64_t free_bytes);

}  // namespace tandem
