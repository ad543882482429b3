// Reading of /proc and /sys/fs/cgroup.
#include "data/free_memory.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

// The number that is the file's first word ("max" is none), or that follows the word `key`.
std::optional<std::int64_t> number_in(const fs::path& file, const std::string& key = "") {
  constexpr std::size_t kMostDigits = 18;
  std::ifstream stream(file);
  for (std::string word; stream >> word;) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(stream >> word)) return std::nullopt;
    if (word.size() > kMostDigits || word.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    return std::stoll(word);
  }
  return std::nullopt;
}

// Names of one version's files.
struct GroupFiles {
  const char *limit, *usage, *inactive;
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::optional<std::int64_t> free_in_group(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  if (!limit) return std::nullopt;
  const std::int64_t usage = number_in(group / files.usage).value_or(0);
  const std::int64_t reclaimable = number_in(group / "memory.stat", files.inactive).value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, usage - reclaimable));
}

// The group `path` below `mount` and all groups above it. Within a container `path` may be a path of the
// host, which is not there: then the mount itself is the process's group.
void take_groups(const fs::path& mount, const fs::path& path, const GroupFiles& files, std::int64_t& least) {
  fs::path group = path.relative_path();
  while (true) {
    if (const auto bytes = free_in_group(mount / group, files)) least = std::min(least, *bytes);
    if (group.empty()) return;
    group = group.parent_path();
  }
}

void take_limit(decltype(RLIMIT_AS) resource, std::int64_t pages, std::int64_t& least) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto most =
      static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int64_t>::max()));
  least = std::min(least, std::max<std::int64_t>(0, most - pages * ::sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::int64_t free_memory_bytes(const fs::path& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  if (const auto kilobytes = number_in(root / "proc/meminfo", "MemAvailable:"))
    least = std::min(least, *kilobytes * 1024);
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "0::/path" or "4:memory:/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (controllers == ",,")
      take_groups(groups, path, kVersion2, least);
    else if (controllers.find(",memory,") != std::string::npos)
      take_groups(groups / "memory", path, kVersion1, least);
  }
  std::int64_t pages = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident >> shared >> text >> library >> data;
  take_limit(RLIMIT_AS, pages, least);
  take_limit(RLIMIT_DATA, data, least);
  return least;
}

}  // namespace tandem
