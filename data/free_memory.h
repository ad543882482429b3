// How much memory this process may still take: of the machine, of its control groups, of its own limits. What
// is kept in it is data/case_cache.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tandem {

// Bytes, the least of: MemAvailable of /proc/meminfo; for each memory control group of the process, from its
// own up to the root, limit - (usage - inactive file cache), in version 1 and 2; RLIMIT_AS and RLIMIT_DATA
// less what they count now. What cannot be read limits nothing. `root` stands in front of /proc and /sys
// (tests).
std::int64_t free_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace tandem
