// The raw data folder of nnU-Net v2 (DatasetNNN_Name): dataset.json, imagesTr/CASE_0000.nii.gz, labelsTr,
// imagesTs; and its splits_final.json. The only files of data/ that read JSON; what a case is, is
// data/case_list.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/case_list.h"
#include "data/options.h"

namespace tandem {

struct NnunetDataset {
  std::vector<std::string> channel_names;
  std::vector<LabelClass> labels;           // one value each, background first
  std::vector<LabelClass> regions;          // in the order of dataset.json; empty: none
  std::vector<std::int64_t> region_values;  // regions_class_order
  std::optional<std::int64_t> ignore_label;
  std::vector<CaseEntry> training;  // of imagesTr and labelsTr or of the list `dataset`, sorted by id
};

// Reads `folder`/dataset.json and looks the files up. Error{kData} naming file, key, got and expected: no or
// no valid dataset.json, a missing key, labels of version 1 ({"0": "background"}), an ignore label that is
// not the highest value, numTraining of another number of cases, a channel file that is missing.
NnunetDataset read_nnunet_dataset(const std::filesystem::path& folder);

// Fills what `data` leaves open from the dataset.json of data.train: labels with regions and ignore_label if
// there are no labels, normalize if it is empty (a channel named CT: ct, noNorm: none, rescale_to_0_1:
// minmax, others: zscore). Does nothing unless data.format is nnunet and labels are missing.
void complete_from_nnunet(DataOptions& data);

// Fold `fold` of a splits_final.json: [{"train": [ids], "val": [ids]}, ...].
struct SplitIds {
  std::vector<std::string> train, validation;
};
SplitIds read_split_file(const std::filesystem::path& file, std::int64_t fold);

}  // namespace tandem
