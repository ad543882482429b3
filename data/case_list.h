// Which files make up a case, and which cases patterns of a job or of a command line name. Opening them is
// data/voxel_source.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

// The files of one case.
struct CaseEntry {
  std::string id;                   // from the file names; a case file's own id beats it
  std::vector<std::string> images;  // one case file, or one NIfTI file per channel
  std::string label;                // NIfTI label map; "": none, or inside the case file
  const std::string& file() const { return images.front(); }
};

bool is_case_file_name(const std::filesystem::path& path);  // .h5 .hdf .hdf5 .hd5
bool is_nifti_name(const std::filesystem::path& path);      // .nii .nii.gz

// The case that `path` belongs to, from names alone. A NIfTI file NAME_0000 is the first of the channels
// NAME_0000, NAME_0001, ... beside it. Its label map is the first of these that exists: labels*/NAME beside
// images*/NAME (imagesTr -> labelsTr), NAME_label, NAME_seg. Error{kData} for other kinds of names.
CaseEntry case_of_file(const std::filesystem::path& path);

// What to do about an image or case file without labels: where a label map is looked for, or how to make the
// case file again. A whole sentence.
std::string how_to_label(const std::filesystem::path& file);

// The cases that `patterns` name: a file; the case files of a folder, else its NIfTI images (or those of its
// sub-folder images*), sorted; a glob (* ? [...]), sorted. Label maps and further channels are no cases of
// their own. Error{kData} for a pattern that names nothing.
std::vector<CaseEntry> list_cases(const std::vector<std::string>& patterns);

}  // namespace tandem
