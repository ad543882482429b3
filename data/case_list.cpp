// File names to cases.
#include "data/case_list.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChannelDigits = 4;  // NAME_0000

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

struct NiftiName {
  std::string stem, ending;  // without ".nii.gz", and the ending
};
NiftiName split_nifti_name(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string ending = name.ends_with(".nii.gz") ? ".nii.gz" : ".nii";
  return {name.substr(0, name.size() - ending.size()), ending};
}

// "NAME" of "NAME_0003" and its number.
std::optional<std::pair<std::string, int>> channel_name(const std::string& stem) {
  if (stem.size() <= kChannelDigits + 1 || stem[stem.size() - kChannelDigits - 1] != '_') return std::nullopt;
  const std::string digits = stem.substr(stem.size() - kChannelDigits);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::pair(stem.substr(0, stem.size() - kChannelDigits - 1), std::stoi(digits));
}

fs::path channel_file(const fs::path& folder, const std::string& name, int channel,
                      const std::string& ending) {
  return folder / fmt::format("{}_{:04}{}", name, channel, ending);
}

std::string find_label(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> candidates;
  const std::string last = folder.filename().string();
  if (last.starts_with("images"))
    candidates.push_back(folder.parent_path() / ("labels" + last.substr(6)) / name);
  candidates.push_back(folder / (name + "_label"));
  candidates.push_back(folder / (name + "_seg"));
  for (const fs::path& candidate : candidates)
    for (const char* ending : {".nii.gz", ".nii"})
      if (const fs::path file = candidate.string() + ending; is_file(file)) return file.string();
  return "";
}

// A label map beside its image, or a channel that its channel 0 already stands for.
bool is_part_of_other_case(const fs::path& path) {
  const auto [stem, ending] = split_nifti_name(path);
  const fs::path folder = path.parent_path();
  if (const auto channel = channel_name(stem); channel && channel->second > 0)
    return is_file(channel_file(folder, channel->first, 0, ending));
  for (const std::string suffix : {"_label", "_seg"}) {
    if (!stem.ends_with(suffix)) continue;
    const std::string name = stem.substr(0, stem.size() - suffix.size());
    for (const char* image_ending : {".nii.gz", ".nii"})
      if (is_file(folder / (name + image_ending)) || is_file(channel_file(folder, name, 0, image_ending)))
        return true;
  }
  return false;
}

std::vector<fs::path> files_of_folder(const fs::path& folder, bool (*fits)(const fs::path&)) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (fits(it->path()) && is_file(it->path())) files.push_back(it->path());
  if (error)
    fail(error == std::errc::permission_denied ? ErrorKind::kResource : ErrorKind::kData,
         "[data] {}: the folder cannot be read: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> case_files_of_folder(const fs::path& folder) {
  std::vector<fs::path> files = files_of_folder(folder, &is_case_file_name);
  if (files.empty()) files = files_of_folder(folder, &is_nifti_name);
  for (const char* images : {"imagesTr", "images"})
    if (std::error_code error; files.empty() && fs::is_directory(folder / images, error))
      files = files_of_folder(folder / images, &is_nifti_name);
  if (files.empty())
    fail(ErrorKind::kData,
         "[data] {}: got a folder without case files, expected *.h5, *.hdf, *.hdf5, *.hd5, *.nii or *.nii.gz",
         folder.string());
  return files;
}

std::vector<fs::path> glob_files(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (files.empty())
    fail(ErrorKind::kData,
         "[data] {}: got no such file, expected a case file, a folder or a glob that fits some", pattern);
  return files;
}

void append_cases(const std::string& pattern, std::vector<CaseEntry>& cases) {
  std::error_code error;
  if (is_file(pattern)) return cases.push_back(case_of_file(pattern));
  const std::vector<fs::path> files =
      fs::is_directory(pattern, error) ? case_files_of_folder(pattern) : glob_files(pattern);
  for (const fs::path& file : files)
    if (!is_nifti_name(file) || !is_part_of_other_case(file)) cases.push_back(case_of_file(file));
}

}  // namespace

bool is_case_file_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h5" || extension == ".hdf" || extension == ".hdf5" || extension == ".hd5";
}

bool is_nifti_name(const fs::path& path) {
  return path.extension() == ".nii" || (path.extension() == ".gz" && path.stem().extension() == ".nii");
}

CaseEntry case_of_file(const fs::path& path) {
  if (is_case_file_name(path)) return {path.stem().string(), {path.string()}, ""};
  if (!is_nifti_name(path))
    fail(ErrorKind::kData,
         "[data] {}: got this name, expected .h5, .hdf, .hdf5, .hd5, .nii or .nii.gz at its end",
         path.string());
  const auto [stem, ending] = split_nifti_name(path);
  const fs::path folder = path.parent_path();
  const auto channel = channel_name(stem);
  if (!channel || channel->second != 0) return {stem, {path.string()}, find_label(folder, stem)};
  CaseEntry entry{channel->first, {path.string()}, find_label(folder, channel->first)};
  for (int c = 1; is_file(channel_file(folder, entry.id, c, ending)); ++c)
    entry.images.push_back(channel_file(folder, entry.id, c, ending).string());
  return entry;
}

std::string how_to_label(const fs::path& file) {
  if (!is_nifti_name(file))
    return "Make the case file with its labels: tandem data convert IMAGE --label LABELS --output CASE.h5.";
  const std::string stem = split_nifti_name(file).stem;
  const auto channel = channel_name(stem);
  const std::string name = channel && channel->second == 0 ? channel->first : stem;
  return fmt::format(
      "Its label map is looked for beside it, {0}_label.nii.gz or {0}_seg.nii.gz, and, where its folder is "
      "images*, as labels*/{0}.nii.gz beside that; or make a case file: tandem data convert IMAGE --label "
      "LABELS --output CASE.h5.",
      name);
}

std::vector<CaseEntry> list_cases(const std::vector<std::string>& patterns) {
  std::vector<CaseEntry> cases;
  for (const std::string& pattern : patterns) append_cases(pattern, cases);
  return cases;
}

}  // namespace tandem
