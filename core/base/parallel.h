// Threads of computation: one OpenMP team per process, its size set once. Loader threads (data/loader) are
// apart and never open a parallel region.
#pragma once

#include <cstdint>
#include <functional>

namespace tandem {

// Sets the team size for the rest of the process; 0 takes the number of usable cores (affinity and cgroup
// quota). Never more than OMP_THREAD_LIMIT allows. Throws Error{kUsage} for more than 8 threads per core of
// the machine, Error{kResource} when the system does not let the process start so many.
void set_compute_threads(int threads);
int compute_threads();
// Cores this process may use.
int usable_cores();

// Calls body(begin, end) over 0..n in chunks that are multiples of `grain` (the last may be short). Chunk
// borders depend on n and the team size only; use parallel_blocks where a result depends on the borders.
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

// Calls body(block, begin, end) for the ceil(n / block_size) blocks of 0..n. Borders do not depend on the
// number of threads: partial results stored per block and combined in block order are bit-identical for any
// team.
void parallel_blocks(std::int64_t n, std::int64_t block_size,
                     const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

}  // namespace tandem
