// The row kernel in plain loops.
#include "core/backends/cpu/tiles/tile_kernels.h"
#include "core/base/half.h"

namespace tandem {

void run_tile_row_portable(const TileRowJob& job) {
  for (std::int64_t j = 0; j < job.voxels; ++j)
    for (int n = 0; n < job.width; ++n) {
      float sum = job.init[n];
      for (std::int64_t s = 0; s < job.segment_count; ++s)
        for (std::int64_t i = 0; i < job.length; ++i)
          for (int part = 0; part < kTileParts; ++part)
            sum += to_float(BFloat16{job.segments[s].a[part * job.plane + j * job.a_step + i]}) *
                   to_float(BFloat16{job.segments[s].b[tile_offset(job.length, job.width, part, i, n)]});
      job.out[j * job.width + n] = sum;
    }
}

}  // namespace tandem
