// The OpenMP team: its size and the two loops that use it. Exceptions cross a region by std::exception_ptr.
#include "core/base/parallel.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr int kMaxThreadsPerCore = 8;
int g_threads = 0;  // written by set_compute_threads before any work starts

// Cores allowed by a cgroup v2 CPU quota, or a large number where there is none.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  long period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 16;
  return std::max(1, static_cast<int>((std::stol(quota) + period - 1) / period));
}

// Runs body(t) for every thread t of the team and rethrows the first exception.
void run_team(int threads, const std::function<void(int)>& body) {
  if (threads <= 1) return body(0);
  std::exception_ptr first;
#pragma omp parallel num_threads(threads)
  {
    try {
      // The runtime may give fewer threads than were asked for.
      for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads()) body(t);
    } catch (...) {
#pragma omp critical(tandem_first_exception)
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Starts and ends `count` threads: OpenMP's runtime ends the process when it cannot start one.
void require_threads(int count) {
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([](const std::stop_token&) {});
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kResource,
                fmt::format("[threads] got only {} of {} threads from the system: {}", threads.size() + 1,
                            count + 1, error.code().message()),
                "Set a smaller `threads`, or raise the limit of processes (ulimit -u).");
  }
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
  return std::max(1, std::min(affinity, quota_cores()));
}

void set_compute_threads(int threads) {
  if (threads < 0)
    fail(ErrorKind::kUsage, "[threads] got {}, expected 0 (auto) or a positive number", threads);
  const int most = kMaxThreadsPerCore * omp_get_num_procs();
  if (threads > most)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("[threads] got {}, expected at most {} ({} per core)", threads, most, kMaxThreadsPerCore),
        "More threads than cores are slower; threads: auto uses every core once.");
  const int wanted = std::min(threads == 0 ? usable_cores() : threads, omp_get_thread_limit());
  require_threads(wanted - 1);
  g_threads = wanted;
  omp_set_dynamic(0);
  omp_set_num_threads(g_threads);
}

int compute_threads() {
  if (g_threads == 0) set_compute_threads(0);
  return g_threads;
}

void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (n <= 0) return;
  const std::int64_t units = (n + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<std::int64_t>(compute_threads(), units));
  run_team(threads, [&](int t) {
    const std::int64_t begin = units * t / threads * grain;
    const std::int64_t end = std::min(n, units * (t + 1) / threads * grain);
    if (begin < end) body(begin, end);
  });
}

void parallel_blocks(std::int64_t n, std::int64_t block_size,
                     const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  if (n <= 0) return;
  const std::int64_t blocks = (n + block_size - 1) / block_size;
  parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) body(b, b * block_size, std::min(n, (b + 1) * block_size));
  });
}

}  // namespace tandem
