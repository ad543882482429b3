// Reading, matching and scoring of label maps.
#include "data/label_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "data/case_score.h"
#include "data/hdf5_file.h"
#include "data/label_map.h"
#include "data/nifti.h"
#include "data/voxel_source.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxClasses = 256;
constexpr std::size_t kShownCases = 8;

// `count` finite numbers: an attribute of `object`, else of /raw; nothing if neither has it.
std::vector<double> numbers_of(const Hdf5File& file, const std::string& object, const std::string& attribute,
                               std::size_t count) {
  for (const std::string& owner : {object, std::string("/raw")}) {
    if (!file.exists(owner) || !file.has_attribute(owner, attribute)) continue;
    std::vector<double> values = file.read_numbers(owner, attribute);
    const bool finite = std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
    if (values.size() != count || !finite)
      fail(ErrorKind::kData, "[labels] {}: {}@{}: got {} numbers, expected {} finite ones", file.name(),
           owner, attribute, values.size(), count);
    return values;
  }
  return {};
}

LabelFile read_hdf5_labels(const fs::path& path) {
  const Hdf5File file = Hdf5File::open(path);
  const std::string object = file.exists("/predictions") ? "/predictions" : "/label";
  if (!file.exists(object))
    fail(ErrorKind::kData, "[labels] {}: got neither /predictions nor /label, expected one of them",
         path.string());
  const Hdf5DatasetInfo info = file.info(object);
  if (info.shape.size() != 3 || !is_integer(info.type))
    fail(ErrorKind::kData, "[labels] {}: {}: got {} of {} dimensions, expected integers (Z, Y, X)",
         path.string(), object, number_name(info.type), info.shape.size());
  Affine affine = affine_of_spacing({1, 1, 1});
  if (const std::vector<double> m = numbers_of(file, object, "affine", 16); !m.empty())
    std::copy(m.begin(), m.end(), affine.begin());
  else if (const std::vector<double> s = numbers_of(file, object, "spacing", 3); !s.empty())
    affine = affine_of_spacing({s[0], s[1], s[2]});
  const Geometry geometry(
      SourceGrid{{info.shape[0], info.shape[1], info.shape[2]}, affine, nifti_space_of(affine)});
  for (const double size : geometry.spacing_mm())
    if (!(size > 0))
      fail(ErrorKind::kData, "[labels] {}: {}: got a voxel size of {} mm, expected more than 0",
           path.string(), object, size);
  return {.file = path.string(), .geometry = geometry, .values = file.read<std::int32_t>(object)};
}

// Case id -> file, for the label maps of a folder.
std::map<std::string, fs::path> files_of(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail(ErrorKind::kData, "[labels] {}: got no such folder, expected one of label maps", folder.string());
  std::map<std::string, fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string();
    if (name.starts_with('.') || !entry.is_regular_file() ||
        (!is_case_file_name(path) && !is_nifti_name(path)))
      continue;
    const auto [known, fresh] = files.emplace(name.substr(0, name.find('.')), path);
    if (!fresh)
      fail(ErrorKind::kData, "[labels] {}: case {}: got two files, {} and {}, expected one", folder.string(),
           known->first, known->second.filename().string(), name);
  }
  return files;
}

std::vector<std::int32_t> classes_of(const LabelFile& labels, const LabelMap& map) {
  std::vector<std::uint8_t> classes(labels.values.size());
  UnknownLabels unknown;
  map.apply(labels.values, classes, unknown);
  LabelMap::expect_none(unknown, labels.file);
  return {classes.begin(), classes.end()};
}

// Every value of the files, 0 first, as a class of its own name.
std::vector<LabelClass> classes_of_values(const std::vector<LabelFilePair>& pairs) {
  std::set<std::int32_t> values;
  for (const LabelFilePair& pair : pairs)
    for (const fs::path& path : {pair.prediction, pair.reference}) {
      const LabelFile labels = read_label_file(path);
      values.insert(labels.values.begin(), labels.values.end());
      values.erase(0);
      if (values.size() >= kMaxClasses)
        fail(ErrorKind::kData, "[labels] {}: got more than {} values, expected a label map", path.string(),
             kMaxClasses);
    }
  std::vector<LabelClass> classes{{"background", {0}}};
  for (const std::int32_t value : values) classes.push_back({std::to_string(value), {value}});
  return classes;
}

// The values that `tandem predict` writes, as classes.
std::vector<LabelClass> written_classes(const LabelMap& map) {
  const std::vector<std::int32_t> values = map.output_values();
  std::vector<LabelClass> classes;
  for (std::size_t c = 0; c < values.size(); ++c) classes.push_back({map.names()[c], {values[c]}});
  return classes;
}

}  // namespace

LabelFile read_label_file(const fs::path& path) {
  if (is_case_file_name(path)) return read_hdf5_labels(path);
  if (!is_nifti_name(path))
    fail(ErrorKind::kData,
         "[labels] {}: got another kind of name, expected .nii, .nii.gz, .h5, .hdf5, .hdf or .hd5",
         path.string());
  LabelVolume volume = read_nifti_labels(path);
  return {.file = path.string(), .geometry = volume.geometry, .values = std::move(volume.values)};
}

std::vector<LabelFilePair> match_label_files(const fs::path& predictions, const fs::path& references) {
  const std::map<std::string, fs::path> predicted = files_of(predictions), expected = files_of(references);
  std::vector<LabelFilePair> pairs;
  std::string missing;
  std::size_t count = 0;
  for (const auto& [id, path] : expected) {
    if (const auto found = predicted.find(id); found != predicted.end())
      pairs.push_back({id, found->second, path});
    else if (count++ < kShownCases)
      missing += (missing.empty() ? "" : ", ") + id;
  }
  if (count > 0)
    throw Error(ErrorKind::kData,
                fmt::format("[labels] {}: got no prediction for {} of {}: {}{}", predictions.string(), count,
                            counted(expected.size(), "case"), missing, count > kShownCases ? ", ..." : ""),
                "A case is a file's name up to its first dot.");
  if (pairs.empty())
    fail(ErrorKind::kData, "[labels] {}: got no label maps, expected .nii, .nii.gz or .h5 files",
         references.string());
  return pairs;
}

SegmentationScores score_label_files(const std::vector<LabelFilePair>& pairs,
                                     const std::vector<LabelClass>& classes, OtherLabels other,
                                     const MetricOptions& options, const std::function<bool()>& should_stop) {
  const LabelMap reference_map(classes.empty() ? classes_of_values(pairs) : classes, other);
  const LabelMap prediction_map(written_classes(reference_map));
  SegmentationScores scores(reference_map.names(), options);
  const std::vector<ScoredRegion> regions = regions_of_classes(reference_map.names());
  for (const LabelFilePair& pair : pairs) {
    if (should_stop && should_stop()) throw Error(ErrorKind::kStopped, "[labels] stopped by a signal");
    const LabelFile prediction = read_label_file(pair.prediction),
                    reference = read_label_file(pair.reference);
    expect_same_grid(reference.geometry, prediction.geometry, reference.file, prediction.file);
    const std::vector<std::int32_t> predicted = classes_of(prediction, prediction_map);
    const std::vector<std::int32_t> expected = classes_of(reference, reference_map);
    const LabelPair labels{reference.geometry.shape(), reference.geometry.spacing_mm(),
                           reference_map.classes(), predicted, expected};
    scores.add_case({.id = pair.id,
                     .file = pair.prediction.string(),
                     .shape = labels.shape,
                     .spacing_mm = labels.spacing_mm,
                     .scores = score_case(labels, regions, options)});
  }
  return scores;
}

}  // namespace tandem
