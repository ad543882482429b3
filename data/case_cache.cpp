// Keys, folders and locks of the disk cache.
#include "data/case_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int kCacheVersion = 1;  // of what preparing does: raise it when its results change

class Digest {
 public:
  Digest() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Digest() { XXH3_freeState(state_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(const void* bytes, std::size_t count) { XXH3_128bits_update(state_, bytes, count); }
  void add_file(const std::string& file) {
    expect_readable(file, "cache", "a file of a case");
    std::ifstream stream(file, std::ios::binary);
    std::vector<char> buffer(std::size_t{1} << 20);
    while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0)
      add(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (stream.bad())
      fail(ErrorKind::kResource, "[cache] {}: cannot be read: {}", file, std::strerror(errno));
    add("\0", 1);
  }
  CacheKey key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t* state_;
};

// An exclusive lock that waits for its turn; the file goes with it.
class WaitingLock {
 public:
  explicit WaitingLock(fs::path path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
      fail(ErrorKind::kResource, "[cache] {}: cannot be created: {}", path_.string(), std::strerror(errno));
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~WaitingLock() {
    ::unlink(path_.c_str());
    ::close(descriptor_);
  }
  WaitingLock(const WaitingLock&) = delete;
  WaitingLock& operator=(const WaitingLock&) = delete;

 private:
  fs::path path_;
  int descriptor_ = -1;
};

bool can_hold_files(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

void remove_leftovers(const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.starts_with(".tmp-") && file.ends_with(name)) ::unlink(it->path().c_str());
  }
}

std::int64_t number_in(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string word; stream >> word;) {
    std::int64_t value = 0;
    if (key.empty())
      return word.find_first_not_of("0123456789") == std::string::npos && word.size() < 19 ? std::stoll(word)
                                                                                           : -1;
    if (word == key && stream >> value) return value;
  }
  return -1;
}

// The smallest of the limits that can be read here; each -1 where it is unknown.
std::int64_t free_memory_bytes() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto take = [&](std::int64_t bytes) {
    if (bytes >= 0) least = std::min(least, bytes);
  };
  if (const std::int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:"); kilobytes >= 0)
    take(kilobytes * 1024);
  for (const auto& [limit, used] : {std::pair("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
                                    std::pair("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                              "/sys/fs/cgroup/memory/memory.usage_in_bytes")})
    if (const std::int64_t most = number_in(limit, ""); most >= 0)
      take(std::max<std::int64_t>(0, most - std::max<std::int64_t>(0, number_in(used, ""))));
  rlimit limit{};
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::int64_t used = pages * ::sysconf(_SC_PAGESIZE);
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    take(std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used));
  return least;
}

}  // namespace

fs::path cache_folder(const DataOptions& data) {
  if (data.cache_folder) {
    if (!can_hold_files(*data.cache_folder))
      fail(ErrorKind::kResource,
           "[cache] {}: got a folder that cannot be made or written, expected one for data.cache_folder",
           *data.cache_folder);
    return *data.cache_folder;
  }
  const fs::path first = data.train.empty() ? fs::path(".") : fs::path(data.train.front());
  std::error_code error;
  const fs::path beside = (fs::is_directory(first, error) ? first : first.parent_path()) / ".tandem-cache";
  if (can_hold_files(beside)) return beside;
  const fs::path temporary = fs::temp_directory_path() / fmt::format("tandem-cache-{}", ::geteuid());
  if (can_hold_files(temporary)) return temporary;
  throw Error(ErrorKind::kResource,
              fmt::format("[cache] got no folder that can be written, neither {} nor {}", beside.string(),
                          temporary.string()),
              "Set data.cache_folder.");
}

CacheKey cache_key(const CaseEntry& entry, const DataOptions& data) {
  DataOptions prepared;  // only what decides the voxels
  prepared.labels = data.labels;
  prepared.other_labels = data.other_labels;
  prepared.ignore_label = data.ignore_label;
  prepared.orientation = data.orientation;
  prepared.spacing = data.spacing;
  prepared.crop_nonzero = data.crop_nonzero;
  prepared.normalize = data.normalize;
  const std::string text = fmt::format("{}\n{}\n", kCacheVersion, emit_yaml(fields(prepared)));
  Digest digest;
  digest.add(text.data(), text.size());
  for (const std::string& file : entry.images) digest.add_file(file);
  if (!entry.label.empty()) digest.add_file(entry.label);
  return digest.key();
}

std::unique_ptr<PreparedCase> open_cached(const CaseEntry& entry, const DataOptions& data,
                                          const fs::path& folder) {
  const CacheKey key = cache_key(entry, data);
  const std::string name = fmt::format("{:016x}{:016x}.bricks", key[1], key[0]);
  std::unique_ptr<BrickFile> bricks = BrickFile::open(folder / name, key);
  if (!bricks) {
    const WaitingLock lock(folder / (name + ".lock"));
    bricks = BrickFile::open(folder / name, key);
    if (!bricks) {
      remove_leftovers(folder, name);
      PreparedCase(open_case(entry, data.orientation), data, false).write_bricks(folder / name, key);
      bricks = BrickFile::open(folder / name, key);
    }
    if (!bricks)
      fail(ErrorKind::kResource, "[cache] {}: got a file that is not as it was written, expected a whole one",
           (folder / name).string());
  }
  return std::make_unique<PreparedCase>(std::move(bricks), read_case_info(entry, data.orientation), data);
}

std::int64_t memory_for_cases(const DataOptions& data) {
  return std::min(data.cache_bytes, free_memory_bytes() / 2);
}

}  // namespace tandem
