// What the last validation of a run found, case by case, with pictures: validation/ of the run folder,
// written whole or not at all, and read again by reports. What the numbers mean is data/segmentation_metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/case_pictures.h"
#include "train/metrics_log.h"

namespace tandem {

// One case: its scores, metric by metric ("dice", "iou", ...) and class by class; NaN: not scored.
struct CaseRecord {
  std::string id;
  double mean_dice = 0;  // over the classes that are scored; NaN if none is
  std::vector<std::pair<std::string, NamedNumbers>> metrics;
  std::vector<CasePicture> pictures;
};

struct ValidationRecord {
  std::int64_t step = 0;
  std::vector<CaseRecord> cases;
};

// Pictures are kept of at most 6 cases: the 4 with the lowest mean Dice and the 2 with the highest.
void drop_middle_pictures(std::vector<CaseRecord>& cases);

// Makes run_folder/validation/step-000000200/ (cases.jsonl and the pictures' PNG files) and removes those of
// other steps. Error{kResource}.
void write_validation(const std::filesystem::path& run_folder, const ValidationRecord& record);

// The newest one in run_folder; nothing if there is none. Lines and pictures that cannot be read are left
// out.
std::optional<ValidationRecord> read_validation(const std::filesystem::path& run_folder);

// Removes those of steps after `step`.
void truncate_validation(const std::filesystem::path& run_folder, std::int64_t step);

}  // namespace tandem
