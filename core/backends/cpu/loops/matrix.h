// A tensor and its cut into chunks as the loops of one instruction-set level are given them; see loops.h.
// Nothing here that the linker may merge.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tandem {

// Rows x channels of a tensor, rows `pitch` elements apart.
struct Matrix {
  void* data;
  DType dtype;
  std::int64_t rows, channels, pitch;
};

// How the rows of each of `samples` groups of rows_per_sample rows are cut into chunks; partial results are
// stored per (sample, chunk). Depends on the shape alone.
struct Chunks {
  std::int64_t samples, rows_per_sample, rows_per_chunk, per_sample;
};

}  // namespace tandem
