// Reading and writing of case files.
#include "data/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRaw = "/raw";
constexpr const char* kLabel = "/label";
constexpr const char* kWeight = "/weight";
constexpr double kAffineTolerance = 1e-4;

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// The numbers of an attribute of /raw; Error{kData} unless there are `count`.
std::vector<double> numbers(const Hdf5File& file, const std::string& attribute, std::size_t count) {
  std::vector<double> values = file.read_numbers(kRaw, attribute);
  if (values.size() != count)
    fail(ErrorKind::kData, "[case] {}: /raw@{}: got {} numbers, expected {}", file.name(), attribute,
         values.size(), count);
  return values;
}

Affine affine_attribute(const Hdf5File& file, const std::string& attribute) {
  const std::vector<double> values = numbers(file, attribute, 16);
  Affine affine;
  std::copy(values.begin(), values.end(), affine.begin());
  for (std::size_t i = 0; i < 16; ++i)
    if (!std::isfinite(affine[i]) || (i >= 12 && affine[i] != (i == 15 ? 1 : 0)))
      fail(ErrorKind::kData,
           "[case] {}: /raw@{} row {} column {}: got {}, expected a finite affine with last row 0 0 0 1",
           file.name(), attribute, i / 4, i % 4, affine[i]);
  for (std::size_t c = 0; c < 3; ++c)
    if (!(std::hypot(affine[c], affine[4 + c], affine[8 + c]) > 1e-9))
      fail(ErrorKind::kData, "[case] {}: /raw@{} column {}: got a voxel axis of length 0, expected more",
           file.name(), attribute, c);
  return affine;
}

// A foreign file: the grid is its own source.
Geometry plain_geometry(const Hdf5File& file, const Index3& shape) {
  Affine affine = affine_of_spacing({1, 1, 1});
  if (file.has_attribute(kRaw, "affine")) {
    affine = affine_attribute(file, "affine");
  } else if (file.has_attribute(kRaw, "spacing")) {
    const std::vector<double> s = numbers(file, "spacing", 3);
    for (const double size : s)
      if (!std::isfinite(size) || size <= 0)
        fail(ErrorKind::kData, "[case] {}: /raw@spacing: got {}, expected sizes above 0", file.name(), size);
    affine = affine_of_spacing({s[0], s[1], s[2]});
  }
  return Geometry(SourceGrid{shape, affine, nifti_space_of(affine)});
}

Geometry stored_geometry(const Hdf5File& file, const Index3& shape) {
  SourceGrid source;
  const std::vector<double> source_shape = numbers(file, "source_shape", 3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!(source_shape[i] >= 1 && source_shape[i] <= 1e6))
      fail(ErrorKind::kData, "[case] {}: /raw@source_shape: got {}, expected 1..1000000", file.name(),
           source_shape[i]);
    source.shape[i] = static_cast<std::int64_t>(source_shape[i]);
  }
  source.affine = affine_attribute(file, "source_affine");
  const std::vector<double> codes = numbers(file, "source_codes", 3);
  source.space.sform_code = static_cast<std::int16_t>(codes[0]);
  source.space.qform_code = static_cast<std::int16_t>(codes[1]);
  source.space.xyzt_units = static_cast<std::uint8_t>(codes[2]);
  const auto copy_floats = [&](const std::string& attribute, auto& target) {
    const std::vector<double> values = numbers(file, attribute, target.size());
    std::transform(values.begin(), values.end(), target.begin(),
                   [](double v) { return static_cast<float>(v); });
  };
  copy_floats("source_pixdim", source.space.pixdim);
  copy_floats("source_quatern", source.space.quatern);
  copy_floats("source_srow", source.space.srow);
  const std::vector<double> map = numbers(file, "source_axes", 9);
  std::array<AxisMap, 3> axes;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!(std::abs(map[3 * i + 2]) <= 1e6))
      fail(ErrorKind::kData, "[case] {}: /raw@source_axes: got an offset of {}, expected at most 1000000",
           file.name(), map[3 * i + 2]);
    axes[i] = {static_cast<int>(map[3 * i]), static_cast<int>(map[3 * i + 1]),
               static_cast<std::int64_t>(map[3 * i + 2])};
  }
  Geometry geometry(source, shape, axes, file.name());
  const Affine said = affine_attribute(file, "affine"), follows = geometry.affine();
  for (std::size_t i = 0; i < 12; ++i)
    if (std::abs(said[i] - follows[i]) > kAffineTolerance)
      fail(
          ErrorKind::kData,
          "[case] {}: /raw@affine row {} column {}: got {}, expected {} as source_affine and source_axes say",
          file.name(), i / 4, i % 4, said[i], follows[i]);
  return geometry;
}

template <class Stored, class Value>
bool all_fit(std::span<const Value> values) {
  return std::all_of(values.begin(), values.end(), [](Value v) {
    return v >= static_cast<Value>(std::numeric_limits<Stored>::min()) &&
           v <= static_cast<Value>(std::numeric_limits<Stored>::max()) &&
           v == static_cast<Value>(static_cast<Stored>(v));
  });
}

template <class Stored, class Value>
void write_as(Hdf5File& file, const char* path, std::span<const std::int64_t> shape,
              std::span<const Value> values) {
  std::vector<std::int64_t> chunk(shape.size(), 32);
  if (shape.size() == 4) chunk[0] = 1;
  const Hdf5Storage storage{chunk, 1, true};
  const std::vector<Stored> stored(values.begin(), values.end());
  file.write<Stored>(path, shape, stored, storage);
}

}  // namespace

CaseFile::CaseFile(const fs::path& path, const Hdf5Limits& limits) : file_(Hdf5File::open(path, limits)) {
  info_.file = path.string();
  const Hdf5DatasetInfo raw = file_.info(kRaw);
  const std::size_t rank = raw.shape.size();
  if ((rank != 3 && rank != 4) || raw.count() == 0)
    fail(ErrorKind::kData, "[case] {}: /raw: got shape {}, expected (Z,Y,X) or (C,Z,Y,X) without empty axes",
         info_.file, shape_text(raw.shape));
  channel_axis_ = rank == 4;
  info_.channels = channel_axis_ ? raw.shape[0] : 1;
  const Index3 shape{raw.shape[rank - 3], raw.shape[rank - 2], raw.shape[rank - 1]};
  info_.geometry =
      file_.has_attribute(kRaw, "source_axes") ? stored_geometry(file_, shape) : plain_geometry(file_, shape);
  info_.id = path.stem().string();
  if (file_.has_attribute(kRaw, "case_id")) {
    const std::vector<std::string> id = file_.read_texts(kRaw, "case_id");
    if (id.size() == 1 && !id[0].empty()) info_.id = id[0];
  }
  if (file_.has_attribute(kRaw, "channel_names"))
    info_.channel_names = file_.read_texts(kRaw, "channel_names");
  info_.has_weights = file_.exists(kWeight);
  if (info_.has_weights) {
    const std::vector<std::int64_t> weight = file_.info(kWeight).shape;
    if (!std::equal(weight.begin(), weight.end(), shape.begin(), shape.end()))
      fail(ErrorKind::kData, "[case] {}: /weight: got shape {}, expected {} as /raw", info_.file,
           shape_text(weight), to_string(shape));
  }
  info_.has_labels = file_.exists(kLabel);
  if (!info_.has_labels) return;
  const Hdf5DatasetInfo label = file_.info(kLabel);
  if (!is_integer(label.type))
    fail(ErrorKind::kData, "[case] {}: /label: got type {}, expected integers", info_.file,
         number_name(label.type));
  if (!std::equal(label.shape.begin(), label.shape.end(), shape.begin(), shape.end()))
    fail(ErrorKind::kData, "[case] {}: /label: got shape {}, expected {} as /raw", info_.file,
         shape_text(label.shape), to_string(shape));
  wide_labels_ = number_size(label.type) == 8 || label.type == NumberType::kU32;
}

void CaseFile::read_image(const Index3& begin, const Index3& size, std::span<float> values) const {
  std::vector<std::int64_t> b(begin.begin(), begin.end()), s(size.begin(), size.end());
  if (channel_axis_) b.insert(b.begin(), 0), s.insert(s.begin(), info_.channels);
  file_.read_box(kRaw, NumberType::kF32, b, s, std::as_writable_bytes(values));
}

void CaseFile::read_labels(const Index3& begin, const Index3& size, std::span<std::int32_t> values) const {
  if (!info_.has_labels)
    fail(ErrorKind::kData, "[case] {}: got no /label, expected one: this case can only be predicted",
         info_.file);
  if (!wide_labels_)
    return file_.read_box(kLabel, NumberType::kI32, begin, size, std::as_writable_bytes(values));
  std::vector<std::int64_t> wide(values.size());
  file_.read_box(kLabel, NumberType::kI64, begin, size, std::as_writable_bytes(std::span(wide)));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (wide[i] < INT32_MIN || wide[i] > INT32_MAX)
      fail(ErrorKind::kData,
           "[case] {}: /label voxel {} (z, y, x): got {}, expected a whole number within 32 bits", info_.file,
           to_string({begin[0] + at / (size[1] * size[2]), begin[1] + at / size[2] % size[1],
                      begin[2] + at % size[2]}),
           wide[i]);
    values[i] = static_cast<std::int32_t>(wide[i]);
  }
}

void write_geometry(Hdf5File& file, const std::string& object, const Geometry& geometry) {
  const std::int64_t four[] = {4, 4}, three[] = {3, 3};
  const auto put = [&](const std::string& attribute, const auto& values,
                       std::span<const std::int64_t> shape = {}) {
    const std::vector<double> doubles(values.begin(), values.end());
    file.write_attribute(object, attribute, doubles, shape);
  };
  put("spacing", geometry.spacing_mm());
  put("affine", geometry.affine(), four);
  const SourceGrid& source = geometry.source();
  put("source_shape", source.shape);
  put("source_affine", source.affine, four);
  std::vector<double> axes;
  for (const AxisMap& map : geometry.axes())
    axes.insert(axes.end(), {static_cast<double>(map.axis), static_cast<double>(map.sign),
                             static_cast<double>(map.offset)});
  put("source_axes", axes, three);
  put("source_codes",
      std::array<int, 3>{source.space.sform_code, source.space.qform_code, source.space.xyzt_units});
  put("source_pixdim", source.space.pixdim);
  put("source_quatern", source.space.quatern);
  put("source_srow", source.space.srow);
}

void CaseFile::read_weights(const Index3& begin, const Index3& size, std::span<float> values) const {
  if (!info_.has_weights) return VoxelSource::read_weights(begin, size, values);
  file_.read_box(kWeight, NumberType::kF32, begin, size, std::as_writable_bytes(values));
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float value) { return !std::isfinite(value) || value < 0; });
  if (bad == values.end()) return;
  const std::int64_t i = bad - values.begin(), row = i / size[2];
  const Index3 voxel{begin[0] + row / size[1], begin[1] + row % size[1], begin[2] + i % size[2]};
  fail(ErrorKind::kData, "[case] {}: /weight: got {} at {} (z, y, x), expected finite weights of 0 or more",
       info_.file, *bad, to_string(voxel));
}

void write_case(const fs::path& path, const std::string& id, const Volume& image, const LabelVolume* labels,
                const std::vector<std::string>& channel_names) {
  const Index3& grid = image.geometry.shape();
  std::vector<std::int64_t> shape(grid.begin(), grid.end());
  check_internal(labels == nullptr || labels->values.size() == static_cast<std::size_t>(voxel_count(grid)),
                 "labels of another shape");
  Hdf5File file = Hdf5File::create_image();
  if (labels != nullptr) {
    const std::span<const std::int32_t> values = labels->values;
    if (all_fit<std::uint8_t>(values))
      write_as<std::uint8_t>(file, kLabel, shape, values);
    else if (all_fit<std::int16_t>(values))
      write_as<std::int16_t>(file, kLabel, shape, values);
    else
      write_as<std::int32_t>(file, kLabel, shape, values);
  }
  if (image.channels > 1) shape.insert(shape.begin(), image.channels);
  const std::span<const float> values = image.values;
  if (all_fit<std::int16_t>(values))
    write_as<std::int16_t>(file, kRaw, shape, values);
  else
    write_as<float>(file, kRaw, shape, values);
  write_geometry(file, kRaw, image.geometry);
  file.write_attribute(kRaw, "case_id", std::vector<std::string>{id});
  if (!channel_names.empty()) file.write_attribute(kRaw, "channel_names", channel_names);
  write_file_atomically(path, file.image());
}

}  // namespace tandem
