// Datasets of an HDF5 file: checked before a byte is read, written chunked and compressed.
#include <fmt/format.h>

#include <algorithm>

#include "data/hdf5_internal.h"

namespace tandem {
namespace {

constexpr int kMaxRank = 8;
// Up to this size a dataset may be unwritten (all fill value); above it must be backed by stored bytes.
constexpr std::int64_t kSmallBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMaxExpansion = 1032;  // of deflate

struct OpenDataset {
  Hdf5Handle dataset, space;
  Hdf5DatasetInfo info;
};

void check_filters(hid_t properties, const std::string& name, std::string_view path) {
  const int count = H5Pget_nfilters(properties);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    char text[64] = {};
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                                               sizeof(text), text, &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32)
      fail(ErrorKind::kData,
           "[hdf5] {}: {}: filter: got {} '{}', expected deflate (gzip), shuffle or fletcher32", name, path,
           filter, text);
  }
}

void check_chunk(hid_t properties, std::size_t element_bytes, const std::string& name, std::string_view path,
                 std::int64_t limit) {
  hsize_t chunk[kMaxRank] = {};
  const int rank = H5Pget_chunk(properties, kMaxRank, chunk);
  __extension__ unsigned __int128 bytes = element_bytes;
  for (int i = 0; i < rank; ++i) bytes *= chunk[i];
  if (rank < 0 || bytes > static_cast<std::uint64_t>(limit))
    fail(ErrorKind::kData,
         "[hdf5] {}: {}: chunk: got {} axes and more than {} bytes, expected at most that many", name, path,
         rank, limit);
}

void check_layout(hid_t dataset, const Hdf5DatasetInfo& info, const std::string& name, std::string_view path,
                  const Hdf5Limits& limits) {
  const Hdf5Handle properties =
      own_hdf5(H5Dget_create_plist(dataset), &H5Pclose, name, path, "has no creation list");
  if (H5Pget_external_count(properties.get()) != 0)
    fail(ErrorKind::kData, "[hdf5] {}: {}: got values kept in another file, expected them in this one", name,
         path);
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT)
    fail(ErrorKind::kData, "[hdf5] {}: {}: layout: got {}, expected contiguous, chunked or compact", name,
         path, layout == H5D_VIRTUAL ? "virtual" : "an unknown one");
  check_filters(properties.get(), name, path);
  if (layout == H5D_CHUNKED)
    check_chunk(properties.get(), number_size(info.type), name, path, limits.chunk_bytes);
}

// Declared bytes must be plausible for what is stored.
void check_stored_size(hid_t file, hid_t dataset, const Hdf5DatasetInfo& info, const std::string& name,
                       std::string_view path) {
  const std::int64_t declared = info.count() * static_cast<std::int64_t>(number_size(info.type));
  if (declared <= kSmallBytes) return;
  hsize_t file_bytes = 0;
  H5Fget_filesize(file, &file_bytes);
  const auto stored = static_cast<std::int64_t>(std::min<hsize_t>(H5Dget_storage_size(dataset), file_bytes));
  if (declared / kMaxExpansion > stored)
    fail(ErrorKind::kData,
         "[hdf5] {}: {}: size: got {} declared bytes but only {} stored, expected at most {} times as many",
         name, path, declared, stored, kMaxExpansion);
}

OpenDataset open_dataset(hid_t file, const std::string& name, std::string_view path,
                         const Hdf5Limits& limits) {
  OpenDataset open;
  open.dataset = open_hdf5_object(file, name, path);
  if (H5Iget_type(open.dataset.get()) != H5I_DATASET)
    fail(ErrorKind::kData, "[hdf5] {}: {}: got a group, expected a dataset", name, path);
  const Hdf5Handle type = own_hdf5(H5Dget_type(open.dataset.get()), &H5Tclose, name, path, "has no type");
  open.info.type = hdf5_number_type(type.get(), name, path);
  open.space = own_hdf5(H5Dget_space(open.dataset.get()), &H5Sclose, name, path, "has no extent");
  open.info.shape =
      hdf5_extent(open.space.get(), number_size(open.info.type), limits.dataset_bytes, name, path);
  check_layout(open.dataset.get(), open.info, name, path, limits);
  check_stored_size(file, open.dataset.get(), open.info, name, path);
  return open;
}

Hdf5Handle creation_properties(const Hdf5Storage& storage, std::span<const std::int64_t> shape,
                               const std::string& name, std::string_view path) {
  Hdf5Handle properties =
      own_hdf5(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose, name, path, "no dataset creation list");
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  if (storage.chunk.empty()) return properties;
  check_internal(storage.chunk.size() == shape.size(), "a chunk shape must have the rank of its dataset");
  std::vector<hsize_t> chunk;
  for (std::size_t i = 0; i < shape.size(); ++i)
    chunk.push_back(static_cast<hsize_t>(
        std::clamp<std::int64_t>(storage.chunk[i], 1, std::max<std::int64_t>(shape[i], 1))));
  H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
  if (storage.shuffle) H5Pset_shuffle(properties.get());
  if (storage.deflate > 0) H5Pset_deflate(properties.get(), static_cast<unsigned>(storage.deflate));
  return properties;
}

Hdf5Handle make_space(std::span<const std::int64_t> shape, const std::string& name, std::string_view path) {
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return own_hdf5(sizes.empty() ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                  &H5Sclose, name, path, "has an impossible shape");
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

hid_t hdf5_memory_type(NumberType type) {
  switch (type) {
    case NumberType::kU8:
      return H5T_NATIVE_UINT8;
    case NumberType::kI8:
      return H5T_NATIVE_INT8;
    case NumberType::kU16:
      return H5T_NATIVE_UINT16;
    case NumberType::kI16:
      return H5T_NATIVE_INT16;
    case NumberType::kU32:
      return H5T_NATIVE_UINT32;
    case NumberType::kI32:
      return H5T_NATIVE_INT32;
    case NumberType::kU64:
      return H5T_NATIVE_UINT64;
    case NumberType::kI64:
      return H5T_NATIVE_INT64;
    case NumberType::kF32:
      return H5T_NATIVE_FLOAT;
    case NumberType::kF64:
      break;
  }
  return H5T_NATIVE_DOUBLE;
}

NumberType hdf5_number_type(hid_t type, const std::string& name, std::string_view object) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t size = H5Tget_size(type);
  if (kind == H5T_FLOAT && size == 4) return NumberType::kF32;
  if (kind == H5T_FLOAT && size == 8) return NumberType::kF64;
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
    for (int i = 0; i < 8; ++i) {
      const auto candidate = static_cast<NumberType>(i);
      if (number_size(candidate) == size && (i % 2 == 1) == is_signed) return candidate;
    }
  }
  fail(ErrorKind::kData,
       "[hdf5] {}: {}: type: got a type of class {} and {} bytes, expected integers of 8 to 64 bits, f32 or "
       "f64",
       name, object, static_cast<int>(kind), size);
}

std::vector<std::int64_t> hdf5_extent(hid_t space, std::size_t element_bytes, std::int64_t max_bytes,
                                      const std::string& name, std::string_view object) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > kMaxRank || H5Sget_simple_extent_type(space) == H5S_NULL)
    fail(ErrorKind::kData, "[hdf5] {}: {}: shape: got {} axes, expected at most {} and at least one value",
         name, object, rank, kMaxRank);
  hsize_t sizes[kMaxRank] = {};
  if (rank > 0) H5Sget_simple_extent_dims(space, sizes, nullptr);
  bool fits = true;
  auto bytes = static_cast<std::int64_t>(element_bytes);
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    shape.push_back(static_cast<std::int64_t>(std::min<hsize_t>(sizes[i], hsize_t{1} << 62)));
    fits = fits && shape.back() <= max_bytes && !__builtin_mul_overflow(bytes, shape.back(), &bytes) &&
           bytes <= max_bytes;
  }
  if (!fits)
    fail(ErrorKind::kData, "[hdf5] {}: {}: shape: got {}, expected at most {} bytes", name, object,
         shape_text(shape), max_bytes);
  return shape;
}

Hdf5DatasetInfo Hdf5File::info(std::string_view path) const {
  const Hdf5Lock lock;
  return open_dataset(state_->file.get(), name(), path, state_->limits).info;
}

void Hdf5File::write(std::string_view path, NumberType type, std::span<const std::int64_t> shape,
                     std::span<const std::byte> bytes, const Hdf5Storage& storage) {
  const Hdf5Lock lock;
  check_internal(state_->writable, "an HDF5 file opened for reading was written to");
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  check_internal(bytes.size() == static_cast<std::size_t>(count) * number_size(type),
                 "the bytes of an HDF5 dataset do not fit its shape");
  const Hdf5Handle space = make_space(shape, name(), path);
  expect_hdf5_room(name(), bytes.size());
  const Hdf5Handle creation = creation_properties(storage, shape, name(), path);
  const Hdf5Handle links = hdf5_link_properties(name());
  const hid_t number = hdf5_memory_type(type);
  const Hdf5Handle dataset = own_hdf5(H5Dcreate2(state_->file.get(), std::string(path).c_str(), number,
                                                 space.get(), links.get(), creation.get(), H5P_DEFAULT),
                                      &H5Dclose, name(), path, "cannot be created");
  if (count > 0 && H5Dwrite(dataset.get(), number, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
    fail_hdf5(name(), path, "cannot be written");
}

void Hdf5File::read(std::string_view path, NumberType type, std::span<std::byte> bytes) const {
  const Hdf5Lock lock;
  const OpenDataset open = open_dataset(state_->file.get(), name(), path, state_->limits);
  const auto needed = static_cast<std::size_t>(open.info.count()) * number_size(type);
  if (needed != bytes.size())
    fail(ErrorKind::kData, "[hdf5] {}: {}: size: got shape {} ({} bytes as {}), expected {} bytes", name(),
         path, shape_text(open.info.shape), needed, number_name(type), bytes.size());
  if (needed > 0 &&
      H5Dread(open.dataset.get(), hdf5_memory_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
    fail_hdf5(name(), path, "cannot be read");
}

void Hdf5File::read_box(std::string_view path, NumberType type, std::span<const std::int64_t> begin,
                        std::span<const std::int64_t> size, std::span<std::byte> bytes) const {
  const Hdf5Lock lock;
  const OpenDataset open = open_dataset(state_->file.get(), name(), path, state_->limits);
  const auto& shape = open.info.shape;
  bool inside = begin.size() == shape.size() && size.size() == shape.size() && !shape.empty();
  std::size_t needed = number_size(type);
  for (std::size_t i = 0; inside && i < shape.size(); ++i) {
    inside = begin[i] >= 0 && size[i] >= 0 && size[i] <= shape[i] && begin[i] <= shape[i] - size[i];
    needed *= static_cast<std::size_t>(size[i]);
  }
  if (!inside)
    fail(ErrorKind::kData, "[hdf5] {}: {}: box: got begin {} size {}, expected a box within {}", name(), path,
         shape_text(begin), shape_text(size), shape_text(shape));
  check_internal(needed == bytes.size(), "read_box: the buffer does not have the size of the box");
  if (needed == 0) return;
  const std::vector<hsize_t> start(begin.begin(), begin.end()), count(size.begin(), size.end());
  const Hdf5Handle memory = make_space(size, name(), path);
  if (H5Sselect_hyperslab(open.space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) <
          0 ||
      H5Dread(open.dataset.get(), hdf5_memory_type(type), memory.get(), open.space.get(), H5P_DEFAULT,
              bytes.data()) < 0)
    fail_hdf5(name(), path, "cannot be read");
}

}  // namespace tandem
