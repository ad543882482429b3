// One trial per state of a file: the states that passed are kept for the life of the process.
#include "data/case_probe.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "data/case_file.h"
#include "data/hdf5_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Device, inode, size, times of the last changes of content and inode in ns.
using FileState = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

std::optional<FileState> file_state(const fs::path& path) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileState{info.st_dev, info.st_ino, info.st_size,
                   info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec,
                   info.st_ctim.tv_sec * kSecond + info.st_ctim.tv_nsec};
}

// What passed, and whether as a whole.
class PassedFiles {
 public:
  bool has(const FileState& state, bool whole) {
    const std::lock_guard lock(mutex_);
    const auto found = passed_.find(state);
    return found != passed_.end() && (found->second || !whole);
  }
  void add(const FileState& state, bool whole) {
    const std::lock_guard lock(mutex_);
    passed_[state] |= whole;
  }

 private:
  std::mutex mutex_;
  std::map<FileState, bool> passed_;
};

PassedFiles& passed_files() {
  static PassedFiles files;
  return files;
}

void read_everything(const CaseFile& file) {
  constexpr std::int64_t kSlabSlices = 32;
  const CaseInfo& info = file.info();
  const Index3& shape = info.geometry.shape();
  for (std::int64_t z = 0; z < shape[0]; z += kSlabSlices) {
    const Index3 begin{z, 0, 0}, size{std::min(kSlabSlices, shape[0] - z), shape[1], shape[2]};
    const auto voxels = static_cast<std::size_t>(voxel_count(size));
    std::vector<float> image(voxels * static_cast<std::size_t>(info.channels));
    std::vector<std::int32_t> labels(info.has_labels ? voxels : 0);
    file.read_image(begin, size, image);
    if (info.has_labels) file.read_labels(begin, size, labels);
    if (info.has_weights) file.read_weights(begin, size, std::span(image).first(voxels));
  }
}

}  // namespace

bool probe_case_file(const fs::path& path, bool whole) {
  const std::optional<FileState> state = file_state(path);
  if (state && passed_files().has(*state, whole)) return false;
  try_hdf5_in_child(path, [&] {
    try {
      const CaseFile file(path);
      if (whole) read_everything(file);
    } catch (const Error&) {
      // The caller meets it again, where it can say more; here only the library's life matters.
    }
  });
  if (state) passed_files().add(*state, whole);
  return true;
}

}  // namespace tandem
