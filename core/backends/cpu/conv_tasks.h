// Independent tasks of uneven length over the OpenMP team, taken one by one (a busy neighbour then costs one
// task, not a share). Loops of even work belong to core/base/parallel.h.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"

namespace tandem {

// Threads that for_tasks uses for `tasks` tasks.
inline int task_threads(std::int64_t tasks) {
  return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(compute_threads(), tasks)));
}

// body(task, thread) for every task; which thread runs a task is not fixed, so results must not depend on it.
// The body must not throw.
template <class Body>
void for_tasks(std::int64_t tasks, const Body& body) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(task_threads(tasks))
  for (std::int64_t task = 0; task < tasks; ++task) body(task, omp_get_thread_num());
}

}  // namespace tandem
