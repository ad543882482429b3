// NIfTI -> case file.
#include "data/convert.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "data/case_file.h"
#include "data/nifti.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr double kSameGridMm = 1e-3;

void expect_same_grid(const Geometry& grid, const Geometry& other, const std::string& file,
                      const std::string& other_file) {
  if (grid.shape() != other.shape())
    fail(ErrorKind::kData, "[convert] {}: shape z, y, x: got {}, expected {} as {}", other_file,
         to_string(other.shape()), to_string(grid.shape()), file);
  const Affine a = grid.affine(), b = other.affine();
  for (std::size_t i = 0; i < 12; ++i)
    if (std::abs(a[i] - b[i]) > kSameGridMm)
      fail(ErrorKind::kData, "[convert] {}: affine row {} column {}: got {}, expected {} as {}", other_file,
           i / 4, i % 4, b[i], a[i], file);
}

Volume read_images(const std::vector<std::string>& files) {
  Volume result;
  for (const std::string& file : files) {
    const Volume stored = read_nifti(file);
    Volume image = on_grid(stored, stored.geometry.canonical());
    if (&file == &files.front()) {
      result = std::move(image);
      continue;
    }
    expect_same_grid(result.geometry, image.geometry, files.front(), file);
    result.channels += image.channels;
    result.values.insert(result.values.end(), image.values.begin(), image.values.end());
  }
  return result;
}

Geometry target_grid(const Geometry& canonical, const ConvertOptions& options) {
  Index3 begin{}, end = canonical.shape();
  for (const Region& region : options.regions) {
    const auto a = static_cast<std::size_t>(region.axis);
    begin[a] = region.begin;
    end[a] = region.end;
  }
  Geometry grid = canonical.cropped(begin, {end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]});
  for (const int axis : options.flips) grid = grid.flipped(axis);
  return grid;
}

std::string default_id(const ConvertOptions& options) {
  std::string id = fs::path(options.images.front()).filename().string();
  id = id.substr(0, id.find('.'));
  for (const Region& region : options.regions)
    id += fmt::format("_{}{}-{}", "zyx"[region.axis], region.begin, region.end);
  for (const int axis : options.flips) id += fmt::format("_flip{}", "zyx"[axis]);
  return id;
}

}  // namespace

int parse_axis(const std::string& text) {
  if (text == "z") return 0;
  if (text == "y") return 1;
  if (text == "x") return 2;
  fail(ErrorKind::kUsage, "[convert] axis: got '{}', expected x, y or z", text);
}

Region parse_region(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.find(':');
  Region region;
  const auto number = [&](std::size_t first, std::size_t last, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data() + first, text.data() + last, value);
    return error == std::errc() && end == text.data() + last;
  };
  if (equals == std::string::npos || colon == std::string::npos || colon < equals ||
      !number(equals + 1, colon, region.begin) || !number(colon + 1, text.size(), region.end))
    fail(ErrorKind::kUsage, "[convert] region: got '{}', expected AXIS=BEGIN:END such as x=0:61", text);
  region.axis = parse_axis(text.substr(0, equals));
  return region;
}

ConvertReport convert_case(const ConvertOptions& options) {
  if (options.images.empty())
    fail(ErrorKind::kUsage, "[convert] image: got none, expected at least one NIfTI file");
  if (!options.overwrite && fs::exists(options.output))
    throw Error(ErrorKind::kUsage,
                fmt::format("[convert] output: got {}, which exists, expected a new file", options.output),
                "Choose another name, or pass --overwrite.");
  const Volume image = read_images(options.images);
  const Geometry grid = target_grid(image.geometry, options);
  ConvertReport report{
      options.case_id.empty() ? default_id(options) : options.case_id, grid, image.channels, {}};
  LabelVolume labels;
  if (!options.label.empty()) {
    const LabelVolume stored = read_nifti_labels(options.label);
    labels = on_grid(stored, stored.geometry.canonical());
    expect_same_grid(image.geometry, labels.geometry, options.images.front(), options.label);
    labels.geometry = image.geometry;  // one source for both: that of the image
    labels = on_grid(labels, grid);
    for (const std::int32_t value : labels.values) ++report.label_counts[value];
  }
  const fs::path folder = fs::path(options.output).parent_path();
  if (!folder.empty()) fs::create_directories(folder);
  write_case(options.output, report.case_id, on_grid(image, grid), options.label.empty() ? nullptr : &labels);
  return report;
}

}  // namespace tandem
