// NIfTI -> case file.
#include "data/convert.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/base/log.h"
#include "data/case_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// What the output may be called; said before anything is read.
void check_output(const ConvertOptions& options) {
  const fs::path output = options.output;
  if (!is_case_file_name(output))
    fail(ErrorKind::kUsage, "[convert] output: got {}, expected a name that ends in .h5, .hdf, .hdf5 or .hd5",
         options.output);
  std::vector<std::string> inputs = options.images;
  if (!options.label.empty()) inputs.push_back(options.label);
  for (const std::string& input : inputs)
    if (std::error_code error; fs::equivalent(output, input, error))
      throw Error(ErrorKind::kUsage, fmt::format("[convert] {}: is input and output", options.output),
                  "Give the case file another name.");
  if (!options.overwrite) expect_new_file("convert", "output", output);
}

// A voxel that is not finite would stop the training later: refused here, or replaced where the user says so.
void treat_non_finite(const ConvertOptions& options, Volume& image) {
  std::int64_t replaced = 0;
  for (std::size_t i = 0; i < image.values.size(); ++i) {
    if (std::isfinite(image.values[i])) continue;
    if (!options.nan_value) {
      const Index3& shape = image.geometry.shape();
      const auto at = static_cast<std::int64_t>(i), v = at % voxel_count(shape);
      throw Error(
          ErrorKind::kData,
          fmt::format(
              "[convert] {}: channel {}, voxel [{}, {}, {}] (z, y, x) of the canonical volume: got {}, "
              "expected a finite number",
              options.images.front(), at / voxel_count(shape), v / (shape[1] * shape[2]),
              v / shape[2] % shape[1], v % shape[2], image.values[i]),
          "Repair the image, or pass --nan VALUE to put a number there.");
    }
    image.values[i] = static_cast<float>(*options.nan_value);
    ++replaced;
  }
  if (replaced > 0)
    log_warning("[convert] {}: {} not finite became {}", options.images.front(), counted(replaced, "voxel"),
                *options.nan_value);
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
  check_output(options);
  Volume image = read_channels(options.images, Orientation::kCanonical);
  treat_non_finite(options, image);
  const Geometry grid = target_grid(image.geometry, options);
  ConvertReport report{
      options.case_id.empty() ? default_id(options) : options.case_id, grid, image.channels, {}};
  LabelVolume labels;
  if (!options.label.empty()) {
    labels = read_labels_of(options.label, image, options.images.front(), Orientation::kCanonical);
    labels = on_grid(labels, grid);
    for (const std::int32_t value : labels.values) ++report.label_counts[value];
  }
  make_parent_folder("convert", options.output);
  write_case(options.output, report.case_id, on_grid(image, grid), options.label.empty() ? nullptr : &labels);
  return report;
}

}  // namespace tandem
