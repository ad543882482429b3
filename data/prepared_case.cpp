// Scanning a case once, and reading boxes of it.
#include "data/prepared_case.h"

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// Slices read at a time while scanning: the chunk size of our files, so that no chunk is decompressed twice.
constexpr std::int64_t kSlabSlices = 32;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::uint8_t class_of(std::int32_t label) {
  return label == kIgnoredLabel ? kIgnoredClass : static_cast<std::uint8_t>(label);
}
std::int32_t label_of(std::uint8_t cls) { return cls == kIgnoredClass ? kIgnoredLabel : cls; }

// planes [C, n] -> interleaved [n, C], normalised.
void interleave(std::span<const float> planes, const std::vector<ChannelScale>& scales,
                std::span<float> out) {
  const std::size_t channels = scales.size(), n = out.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const ChannelScale scale = scales[c];
    const float* plane = planes.data() + c * n;
    for (std::size_t i = 0; i < n; ++i) out[i * channels + c] = scale(plane[i]);
  }
}

// A channel of data.normalize that no image has is a mistake of the job, not something to pass over.
void expect_channels(const std::vector<NormalizeOptions>& normalize, const CaseInfo& info) {
  for (const NormalizeOptions& options : normalize)
    if (options.channel >= info.channels)
      fail(ErrorKind::kConfig, "[normalize] data.normalize channel: got {}, expected 0 to {} as {} has {}",
           options.channel, info.channels - 1, info.file, counted(info.channels, "channel"));
}

}  // namespace

PreparedCase::PreparedCase(std::unique_ptr<VoxelSource> source, const DataOptions& options, bool in_memory)
    : source_(std::move(source)), info_(source_->info()), labels_(options), in_memory_(in_memory) {
  expect_channels(options.normalize, info_);
  plan_.from = plan_.to = info_.geometry.shape();
  if (needs_whole_case(options)) {
    prepare(options);
    return;
  }
  scan(options);
  if (in_memory_) keep_image();
}

PreparedCase::PreparedCase(std::unique_ptr<BrickFile> bricks, const CaseInfo& info,
                           const DataOptions& options)
    : bricks_(std::move(bricks)),
      info_(info),
      labels_(options),
      foreground_(bricks_->info().foreground),
      scales_(bricks_->info().scales),
      in_memory_(false) {
  plan_.from = plan_.to = bricks_->info().shape;
}

void PreparedCase::write_bricks(const std::filesystem::path& path, const CacheKey& key) const {
  const BrickInfo info{shape(), channels(), has_labels(), has_weights(), scales_, foreground_};
  BrickFile::write(path, key, info, [this](const Index3& begin, const Index3& size, const BrickParts& parts) {
    std::vector<std::int32_t> labels(parts.classes.size());
    read_inside(begin, size, {parts.image, labels, parts.weights});
    std::transform(labels.begin(), labels.end(), parts.classes.begin(), &class_of);
  });
}

void PreparedCase::release_source() {
  check_internal(in_memory_, "the source of a case that is read from it");
  source_.reset();
}

void PreparedCase::keep_image() {
  image_.resize(as_size(voxel_count(shape()) * channels()));
  if (has_weights()) weights_.resize(as_size(voxel_count(shape())));
  for (std::int64_t z = 0; z < shape()[0]; z += kSlabSlices) {
    const Index3 begin{z, 0, 0}, size{std::min(kSlabSlices, shape()[0] - z), shape()[1], shape()[2]};
    const std::int64_t first = z * shape()[1] * shape()[2];
    std::vector<float> planes(as_size(voxel_count(size) * channels()));
    source_->read_image(begin, size, planes);
    interleave(planes, scales_, std::span(image_).subspan(as_size(first * channels()), planes.size()));
    if (has_weights())
      source_->read_weights(begin, size,
                            std::span(weights_).subspan(as_size(first), as_size(voxel_count(size))));
  }
}

bool PreparedCase::needs_whole_case(const DataOptions& options) {
  return options.spacing || options.crop_nonzero || !masked_channels(options.normalize).empty();
}

std::int64_t PreparedCase::reading_bytes(const CaseInfo& info, const DataOptions& options) {
  const Index3& shape = info.geometry.shape();
  const auto value = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t voxel = (info.channels + (info.has_weights ? 2 : 1)) * value;  // image, labels, weights
  if (needs_whole_case(options)) return 2 * voxel_count(shape) * voxel + memory_bytes(info, options);
  if (!is_case_file_name(info.file)) return voxel_count(shape) * (voxel + value);  // turned to RAS
  return std::min(kSlabSlices, shape[0]) * shape[1] * shape[2] * (voxel + value);
}

std::int64_t PreparedCase::memory_bytes(const CaseInfo& info, const DataOptions& options) {
  const std::int64_t floats = info.channels + (info.has_weights ? 1 : 0);
  return voxel_count(largest_placement(info, options).plan.to) *
         (floats * static_cast<std::int64_t>(sizeof(float)) + 1);
}

void PreparedCase::scan(const DataOptions& options) {
  const std::int64_t slice = shape()[1] * shape()[2];
  std::vector<ChannelStatistics> statistics;
  for (std::int64_t c = 0; c < channels(); ++c)
    statistics.emplace_back(normalize_options_of(options.normalize, c));
  foreground_ = ClassIndex(labels_.classes(), shape(), labels_.ignores());
  UnknownLabels unknown;
  std::optional<Index3> first_unknown;
  if (in_memory_ && has_labels()) classes_.reserve(as_size(voxel_count(shape())));
  for (std::int64_t z = 0; z < shape()[0]; z += kSlabSlices) {
    const Index3 begin{z, 0, 0}, size{std::min(kSlabSlices, shape()[0] - z), shape()[1], shape()[2]};
    const std::int64_t voxels = voxel_count(size);
    std::vector<float> planes(as_size(voxels * channels()));
    source_->read_image(begin, size, planes);
    for (std::int64_t c = 0; c < channels(); ++c)
      for (std::int64_t i = 0; i < size[0]; ++i)
        statistics[as_size(c)].add_slice(
            std::span(planes).subspan(as_size(c * voxels + i * slice), as_size(slice)), z + i, shape()[2],
            info().file);
    if (!has_labels()) continue;
    std::vector<std::int32_t> values(as_size(voxels));
    std::vector<std::uint8_t> classes(values.size());
    source_->read_labels(begin, size, values);
    labels_.apply(values, classes, unknown);
    if (!unknown.empty() && !first_unknown) {
      const auto at = std::find_if(values.begin(), values.end(),
                                   [&](std::int32_t value) { return unknown.contains(value); });
      const std::int64_t voxel = at - values.begin();
      first_unknown = Index3{z + voxel / slice, voxel % slice / shape()[2], voxel % shape()[2]};
    }
    for (std::int64_t row = 0; row < size[0] * size[1]; ++row)
      foreground_.add_row(std::span(classes).subspan(as_size(row * size[2]), as_size(size[2])));
    if (in_memory_) classes_.insert(classes_.end(), classes.begin(), classes.end());
  }
  LabelMap::expect_none(unknown, info().file, first_unknown);
  for (const ChannelStatistics& channel : statistics) scales_.push_back(channel.scale());
}

void PreparedCase::read_inside(const Index3& begin, const Index3& size, const Parts& parts) const {
  const auto& [image, label, weight] = parts;
  if (bricks_) {
    std::vector<std::uint8_t> classes(label.size());
    bricks_->read(begin, size, {image, classes, weight});
    std::transform(classes.begin(), classes.end(), label.begin(), &label_of);
    return;
  }
  if (!in_memory_) {
    if (!image.empty()) {
      std::vector<float> planes(image.size());
      source_->read_image(begin, size, planes);
      interleave(planes, scales_, image);
    }
    if (!weight.empty()) source_->read_weights(begin, size, weight);
    if (label.empty()) return;
    source_->read_labels(begin, size, label);
    std::vector<std::uint8_t> classes(label.size());
    UnknownLabels unknown;
    labels_.apply(label, classes, unknown);
    std::transform(classes.begin(), classes.end(), label.begin(), &label_of);
    return;
  }
  const auto row_values = static_cast<std::ptrdiff_t>(size[2] * channels());
  auto target = image.begin();
  auto label_target = label.begin();
  auto weight_target = weight.begin();
  for (std::int64_t z = begin[0]; z < begin[0] + size[0]; ++z)
    for (std::int64_t y = begin[1]; y < begin[1] + size[1]; ++y) {
      const std::int64_t voxel = (z * shape()[1] + y) * shape()[2] + begin[2];
      const auto row = image_.begin() + voxel * channels();
      if (!image.empty()) target = std::copy(row, row + row_values, target);
      if (!label.empty()) {
        const auto classes = classes_.begin() + voxel;
        label_target = std::transform(classes, classes + size[2], label_target, &label_of);
      }
      if (weight.empty()) continue;
      weight_target = weights_.empty() ? std::fill_n(weight_target, size[2], 1.0f)
                                       : std::copy_n(weights_.begin() + voxel, size[2], weight_target);
    }
}

void PreparedCase::read_box(const Index3& begin, const Index3& size, std::span<float> image,
                            std::span<std::int32_t> label, std::span<float> weight) const {
  const std::size_t voxels = as_size(voxel_count(size));
  check_internal((image.empty() || image.size() == voxels * as_size(channels())) &&
                     (label.empty() || label.size() == voxels) && (weight.empty() || weight.size() == voxels),
                 "read_box: buffers do not have the size of the box");
  check_internal(label.empty() || has_labels(), "read_box: labels of a case without labels");
  Index3 first{}, inside{};
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = std::clamp<std::int64_t>(begin[a], 0, shape()[a]);
    inside[a] = std::clamp<std::int64_t>(begin[a] + size[a], 0, shape()[a]) - first[a];
  }
  if (inside == size) return read_inside(begin, size, {image, label, weight});
  std::fill(image.begin(), image.end(), 0.0f);
  std::fill(label.begin(), label.end(), 0);
  std::fill(weight.begin(), weight.end(), 1.0f);
  const std::int64_t count = voxel_count(inside);
  if (count <= 0) return;
  std::vector<float> part(image.empty() ? 0 : as_size(count * channels())),
      weight_part(weight.empty() ? 0 : as_size(count));
  std::vector<std::int32_t> label_part(label.empty() ? 0 : as_size(count));
  read_inside(first, inside, {part, label_part, weight_part});
  for (std::int64_t z = 0; z < inside[0]; ++z)
    for (std::int64_t y = 0; y < inside[1]; ++y) {
      const std::int64_t from = (z * inside[1] + y) * inside[2];
      const std::int64_t to =
          ((z + first[0] - begin[0]) * size[1] + y + first[1] - begin[1]) * size[2] + first[2] - begin[2];
      if (!image.empty())
        std::copy_n(part.begin() + from * channels(), inside[2] * channels(),
                    image.begin() + to * channels());
      if (!label.empty()) std::copy_n(label_part.begin() + from, inside[2], label.begin() + to);
      if (!weight.empty()) std::copy_n(weight_part.begin() + from, inside[2], weight.begin() + to);
    }
}

std::vector<std::int32_t> PreparedCase::source_labels() const {
  check_internal(source_ != nullptr, "labels of a source that was released");
  const Index3& whole = info_.geometry.shape();
  std::vector<std::int32_t> values(as_size(voxel_count(whole)));
  source_->read_labels({0, 0, 0}, whole, values);
  std::vector<std::uint8_t> classes(values.size());
  UnknownLabels unknown;
  labels_.apply(values, classes, unknown);
  LabelMap::expect_none(unknown, info_.file);
  std::transform(classes.begin(), classes.end(), values.begin(), &label_of);
  return values;
}

Index3 PreparedCase::voxel_of_class(std::int64_t cls, std::int64_t k) const {
  const ClassIndex::Place place = foreground_.locate(cls, k);
  const Index3 row{place.row / shape()[1], place.row % shape()[1], 0};
  std::vector<std::int32_t> label(as_size(shape()[2]));
  read_inside(row, {1, 1, shape()[2]}, {{}, label, {}});
  std::int64_t left = place.ordinal;
  for (std::int64_t x = 0; x < shape()[2]; ++x)
    if (label[as_size(x)] == cls && left-- == 0) return {row[0], row[1], x};
  throw Error(ErrorKind::kData, fmt::format("[data] {}: labels of row {} changed since the file was opened",
                                            info().file, to_string(row)));
}

}  // namespace tandem
