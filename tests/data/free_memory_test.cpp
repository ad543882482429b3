// What limits memory, from made-up /proc and /sys trees.
#include "data/free_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/case_cache.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  testing::write_bytes(path, text);
}

constexpr std::int64_t kMiB = 1 << 20;

TEST(FreeMemory, IsTheLeastOfMachineAndGroups) {
  const TempFolder root;
  EXPECT_EQ(free_memory_bytes(root.path()), std::numeric_limits<std::int64_t>::max());
  write(root / "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8192 kB\n");
  EXPECT_EQ(free_memory_bytes(root.path()), 8 * kMiB);
  // Version 2: the process's own group and the ones above; cache that can go does not count.
  write(root / "proc/self/cgroup", "0::/jobs/one\n");
  write(root / "sys/fs/cgroup/memory.max", "max\n");
  write(root / "sys/fs/cgroup/jobs/memory.max", std::to_string(7 * kMiB));
  write(root / "sys/fs/cgroup/jobs/memory.current", std::to_string(2 * kMiB));
  EXPECT_EQ(free_memory_bytes(root.path()), 5 * kMiB);
  write(root / "sys/fs/cgroup/jobs/one/memory.max", std::to_string(6 * kMiB));
  write(root / "sys/fs/cgroup/jobs/one/memory.current", std::to_string(5 * kMiB));
  write(root / "sys/fs/cgroup/jobs/one/memory.stat",
        "anon 5\ninactive_file " + std::to_string(3 * kMiB) + "\n");
  EXPECT_EQ(free_memory_bytes(root.path()), 4 * kMiB);
}

TEST(FreeMemory, KnowsVersionOneAndAContainersOwnMount) {
  const TempFolder root;
  write(root / "proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/pod/42\n");
  write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(3 * kMiB));
  write(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kMiB));
  EXPECT_EQ(free_memory_bytes(root.path()), 2 * kMiB);  // /pod/42 is a path of the host
  write(root / "sys/fs/cgroup/memory/pod/42/memory.limit_in_bytes", std::to_string(kMiB));
  EXPECT_EQ(free_memory_bytes(root.path()), kMiB);
  write(root / "sys/fs/cgroup/memory/pod/42/memory.usage_in_bytes", std::to_string(8 * kMiB));
  EXPECT_EQ(free_memory_bytes(root.path()), 0);
}

TEST(FreeMemory, CachedCasesLeaveRoomForReadingOne) {
  DataOptions data;
  data.cache_bytes = 1000;
  EXPECT_EQ(memory_for_cases(data), 1000);
  EXPECT_EQ(memory_for_cases(data, std::int64_t{1} << 60), 0);
}

}  // namespace
}  // namespace tandem
