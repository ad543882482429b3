// Preloaded into the program by machine_test.py: the clock of the day jumps at each look at it, by the
// seconds listed in TEST_CLOCK_JUMPS, in turn. The steady clock is left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<unsigned> looks{0};

long next_jump() {
  const char* jumps = std::getenv("TEST_CLOCK_JUMPS");
  if (jumps == nullptr) return 0;
  long values[8];
  unsigned n = 0;
  for (char* end = nullptr; n < 8; jumps = end + 1) {
    values[n++] = std::strtol(jumps, &end, 10);
    if (*end != ',') break;
  }
  return values[looks++ % n];
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += next_jump();
  return static_cast<int>(result);
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* seconds) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (seconds != nullptr) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
