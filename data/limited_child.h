// Code that a hostile or damaged file may crash, in a child process with limits of memory and time. What is
// run there is the caller's subject.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tandem {

struct ChildLimits {
  std::int64_t memory_bytes = std::int64_t{1} << 30;  // beyond what the process has now
  std::int64_t cpu_s = 30;
  std::int64_t wall_s = 120;
};

// Forks, runs `body` in the child and waits. Returns if it returned; an Error that it threw is thrown here
// with its kind, text and hint. Error{kData} "[where] FILE: ..." in one line if the child dies of a signal,
// uses up its limits or ends in another way. The child writes nothing to disk, ignores SIGINT and SIGTERM,
// and never returns to the caller. `body` must open no parallel region and take no lock that another thread
// may hold.
void run_limited(const std::string& where, const std::string& file, const ChildLimits& limits,
                 const std::function<void()>& body);

}  // namespace tandem
