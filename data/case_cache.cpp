// Keys, folders and locks of the disk cache.
#include "data/case_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "data/free_memory.h"

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

std::int64_t memory_for_cases(const DataOptions& data, std::int64_t reading_bytes) {
  const std::int64_t free = free_memory_bytes();
  return std::max<std::int64_t>(0, std::min({data.cache_bytes, free / 4, free - free / 10 - reading_bytes}));
}

}  // namespace tandem
