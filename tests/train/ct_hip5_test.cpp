// The demo's data as configs/unet3d_ct.yaml reads it: the voxels of each class in both halves (medical.md 5).
// Needs
// ./demo.sh to have fetched them.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/label_map.h"
#include "data/split.h"
#include "data/voxel_source.h"
#include "train/job.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> class_voxels(const CaseEntry& entry, const DataOptions& data) {
  const auto source = open_case(entry, data.orientation);
  const Index3 shape = source->info().geometry.shape();
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  source->read_labels({0, 0, 0}, shape, values);
  std::vector<std::uint8_t> classes(values.size());
  UnknownLabels unknown;
  LabelMap(data).apply(values, classes, unknown);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(data.classes()));
  for (const std::uint8_t cls : classes) ++counts[cls];
  counts.erase(counts.begin());  // background
  return counts;
}

TEST(CtHip5, VoxelsOfEachClassInBothHalves) {
  const fs::path job_file = fs::path(TANDEM_SOURCE_DIR) / "configs/unet3d_ct.yaml";
  const JobOptions job = load_job(job_file, {});
  if (!fs::exists(job.data.train.front())) GTEST_SKIP() << "no CT here: ./demo.sh fetches it";
  EXPECT_EQ(class_voxels(training_cases(job.data).front(), job.data),
            (std::vector<std::int64_t>{13246, 11956, 8860, 10285, 15541}));
  EXPECT_EQ(class_voxels(validation_cases(job.data).front(), job.data),
            (std::vector<std::int64_t>{12968, 13657, 8917, 9881, 15145}));
}

}  // namespace
}  // namespace tandem
