// Opening of cases by file name.
#include "data/voxel_source.h"

#include <glob.h>

#include <algorithm>

#include "core/base/error.h"
#include "data/case_file.h"
#include "data/nifti.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool is_case_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h5" || extension == ".hdf" || extension == ".hdf5" || extension == ".hd5";
}

bool is_nifti_name(const fs::path& path) {
  return path.extension() == ".nii" || (path.extension() == ".gz" && path.stem().extension() == ".nii");
}

class NiftiSource final : public VoxelSource {
 public:
  explicit NiftiSource(const fs::path& path) {
    const Volume stored = read_nifti(path);
    volume_ = on_grid(stored, stored.geometry.canonical());
    info_.file = path.string();
    const std::string name = path.filename().string();
    info_.id = name.substr(0, name.find(".nii"));
    info_.geometry = volume_.geometry;
    info_.channels = volume_.channels;
  }
  const CaseInfo& info() const override { return info_; }
  void read_image(const Index3& begin, const Index3& size, std::span<float> values) const override {
    const Index3& shape = info_.geometry.shape();
    auto target = values.begin();
    for (std::int64_t c = 0; c < info_.channels; ++c)
      for (std::int64_t z = begin[0]; z < begin[0] + size[0]; ++z)
        for (std::int64_t y = begin[1]; y < begin[1] + size[1]; ++y) {
          const auto row = volume_.values.begin() + ((c * shape[0] + z) * shape[1] + y) * shape[2] + begin[2];
          target = std::copy(row, row + size[2], target);
        }
  }
  void read_labels(const Index3&, const Index3&, std::span<std::int32_t>) const override {
    fail(ErrorKind::kData, "[nifti] {}: got an image, expected a case with labels", info_.file);
  }

 private:
  Volume volume_;
  CaseInfo info_;
};

std::vector<std::string> case_files_of_folder(const fs::path& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && is_case_name(entry.path())) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  if (files.empty())
    fail(ErrorKind::kData,
         "[data] {}: got a folder without case files, expected *.h5, *.hdf, *.hdf5 or *.hd5",
         folder.string());
  return files;
}

std::vector<std::string> glob_files(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (files.empty())
    fail(ErrorKind::kData,
         "[data] {}: got no such file, expected a case file, a folder or a glob that fits some", pattern);
  return files;
}

}  // namespace

std::unique_ptr<VoxelSource> open_voxel_source(const fs::path& path) {
  if (is_case_name(path)) return std::make_unique<CaseFile>(path);
  if (is_nifti_name(path)) return std::make_unique<NiftiSource>(path);
  fail(ErrorKind::kData,
       "[data] {}: got this name, expected .h5, .hdf, .hdf5, .hd5, .nii or .nii.gz at its end",
       path.string());
}

std::vector<std::string> expand_case_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const fs::path path(pattern);
    std::error_code error;
    if (fs::is_regular_file(path, error)) {
      files.push_back(pattern);
      continue;
    }
    const std::vector<std::string> more =
        fs::is_directory(path, error) ? case_files_of_folder(path) : glob_files(pattern);
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

}  // namespace tandem
