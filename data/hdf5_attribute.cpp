// Text datasets and attributes of an HDF5 file.
#include <algorithm>
#include <cstring>

#include "data/hdf5_internal.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxAttributeBytes = 32 << 10;

Hdf5Handle text_type(std::size_t bytes, const std::string& name, std::string_view object) {
  Hdf5Handle type = own_hdf5(H5Tcopy(H5T_C_S1), &H5Tclose, name, object, "no text type");
  H5Tset_size(type.get(), std::max<std::size_t>(bytes, 1));
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

struct OpenAttribute {
  Hdf5Handle attribute, type;
  std::int64_t count = 1;
};

OpenAttribute open_attribute(hid_t file, const std::string& name, std::string_view object,
                             const std::string& attribute) {
  const Hdf5Handle parent = open_hdf5_object(file, name, object);
  const std::string label = fmt::format("{}@{}", object, attribute);
  OpenAttribute open;
  open.attribute = own_hdf5(H5Aopen(parent.get(), attribute.c_str(), H5P_DEFAULT), &H5Aclose, name, label,
                            "got no such attribute");
  open.type = own_hdf5(H5Aget_type(open.attribute.get()), &H5Tclose, name, label, "has no type");
  const Hdf5Handle space =
      own_hdf5(H5Aget_space(open.attribute.get()), &H5Sclose, name, label, "has no extent");
  for (const std::int64_t size :
       hdf5_extent(space.get(), H5Tget_size(open.type.get()), kMaxAttributeBytes, name, label))
    open.count *= size;
  return open;
}

void write_attribute_bytes(hid_t file, const std::string& name, std::string_view object,
                           const std::string& attribute, hid_t type, std::span<const std::int64_t> shape,
                           const void* values) {
  const Hdf5Handle parent = open_hdf5_object(file, name, object);
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const std::string label = fmt::format("{}@{}", object, attribute);
  const Hdf5Handle space = own_hdf5(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                                    &H5Sclose, name, label, "has an impossible shape");
  const Hdf5Handle made =
      own_hdf5(H5Acreate2(parent.get(), attribute.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
               &H5Aclose, name, label, "cannot be created");
  if (H5Awrite(made.get(), type, values) < 0) fail_hdf5(name, label, "cannot be written");
}

template <class T>
std::vector<T> read_numeric_attribute(hid_t file, const std::string& name, std::string_view object,
                                      const std::string& attribute) {
  const OpenAttribute open = open_attribute(file, name, object, attribute);
  const std::string label = fmt::format("{}@{}", object, attribute);
  hdf5_number_type(open.type.get(), name, label);
  std::vector<T> values(static_cast<std::size_t>(open.count));
  if (open.count > 0 &&
      H5Aread(open.attribute.get(), hdf5_memory_type(number_type_of<T>()), values.data()) < 0)
    fail_hdf5(name, label, "cannot be read");
  return values;
}

}  // namespace

void Hdf5File::write_text(std::string_view path, std::string_view text) {
  const Hdf5Lock lock;
  check_internal(state_->writable, "an HDF5 file opened for reading was written to");
  const Hdf5Handle type = text_type(text.size(), name(), path);
  const Hdf5Handle space = own_hdf5(H5Screate(H5S_SCALAR), &H5Sclose, name(), path, "has no extent");
  const Hdf5Handle creation =
      own_hdf5(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose, name(), path, "no dataset creation list");
  H5Pset_obj_track_times(creation.get(), false);
  const Hdf5Handle links = hdf5_link_properties(name());
  const Hdf5Handle dataset = own_hdf5(H5Dcreate2(state_->file.get(), std::string(path).c_str(), type.get(),
                                                 space.get(), links.get(), creation.get(), H5P_DEFAULT),
                                      &H5Dclose, name(), path, "cannot be created");
  const std::string bytes = text.empty() ? std::string(1, '\0') : std::string(text);
  if (H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
    fail_hdf5(name(), path, "cannot be written");
}

std::string Hdf5File::read_text(std::string_view path, std::int64_t max_bytes) const {
  const Hdf5Lock lock;
  const Hdf5Handle dataset = open_hdf5_object(state_->file.get(), name(), path);
  if (H5Iget_type(dataset.get()) != H5I_DATASET)
    fail(ErrorKind::kData, "[hdf5] {}: {}: got a group, expected a text", name(), path);
  const Hdf5Handle type = own_hdf5(H5Dget_type(dataset.get()), &H5Tclose, name(), path, "has no type");
  const Hdf5Handle space = own_hdf5(H5Dget_space(dataset.get()), &H5Sclose, name(), path, "has no extent");
  const Hdf5Handle creation =
      own_hdf5(H5Dget_create_plist(dataset.get()), &H5Pclose, name(), path, "has no creation list");
  const std::size_t size = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) > 0 ||
      H5Sget_simple_extent_npoints(space.get()) != 1 || H5Pget_external_count(creation.get()) != 0 ||
      size > static_cast<std::size_t>(max_bytes))
    fail(ErrorKind::kData,
         "[hdf5] {}: {}: got a type of class {} and {} bytes, expected one text of fixed length up to {} "
         "bytes",
         name(), path, static_cast<int>(H5Tget_class(type.get())), size, max_bytes);
  std::string text(size, '\0');
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0)
    fail_hdf5(name(), path, "cannot be read");
  text.resize(std::min(text.size(), text.find_last_not_of('\0') + 1));
  return text;
}

bool Hdf5File::has_attribute(std::string_view object, const std::string& attribute) const {
  const Hdf5Lock lock;
  const Hdf5Handle parent = open_hdf5_object(state_->file.get(), name(), object);
  return H5Aexists(parent.get(), attribute.c_str()) > 0;
}

void Hdf5File::write_attribute(std::string_view object, const std::string& attribute,
                               std::span<const double> values, std::span<const std::int64_t> shape) {
  const Hdf5Lock lock;
  const std::int64_t flat[] = {static_cast<std::int64_t>(values.size())};
  write_attribute_bytes(state_->file.get(), name(), object, attribute, H5T_NATIVE_DOUBLE,
                        shape.empty() ? std::span(flat) : shape, values.data());
}

void Hdf5File::write_attribute(std::string_view object, const std::string& attribute,
                               std::span<const std::int64_t> values) {
  const Hdf5Lock lock;
  const std::int64_t flat[] = {static_cast<std::int64_t>(values.size())};
  write_attribute_bytes(state_->file.get(), name(), object, attribute, H5T_NATIVE_INT64, flat, values.data());
}

void Hdf5File::write_attribute(std::string_view object, const std::string& attribute,
                               const std::vector<std::string>& texts) {
  const Hdf5Lock lock;
  std::size_t longest = 1;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string bytes(longest * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i)
    std::memcpy(bytes.data() + i * longest, texts[i].data(), texts[i].size());
  const Hdf5Handle type = text_type(longest, name(), object);
  const std::int64_t flat[] = {static_cast<std::int64_t>(texts.size())};
  write_attribute_bytes(state_->file.get(), name(), object, attribute, type.get(), flat, bytes.data());
}

std::vector<double> Hdf5File::read_numbers(std::string_view object, const std::string& attribute) const {
  const Hdf5Lock lock;
  return read_numeric_attribute<double>(state_->file.get(), name(), object, attribute);
}

std::vector<std::int64_t> Hdf5File::read_integers(std::string_view object,
                                                  const std::string& attribute) const {
  const Hdf5Lock lock;
  return read_numeric_attribute<std::int64_t>(state_->file.get(), name(), object, attribute);
}

std::vector<std::string> Hdf5File::read_texts(std::string_view object, const std::string& attribute) const {
  const Hdf5Lock lock;
  const OpenAttribute open = open_attribute(state_->file.get(), name(), object, attribute);
  const std::string label = fmt::format("{}@{}", object, attribute);
  if (H5Tget_class(open.type.get()) != H5T_STRING)
    fail(ErrorKind::kData, "[hdf5] {}: {}: type: got class {}, expected text", name(), label,
         static_cast<int>(H5Tget_class(open.type.get())));
  std::vector<std::string> texts;
  const auto count = static_cast<std::size_t>(open.count);
  if (H5Tis_variable_str(open.type.get()) > 0) {
    std::vector<char*> pointers(count, nullptr);
    if (H5Aread(open.attribute.get(), open.type.get(), pointers.data()) < 0)
      fail_hdf5(name(), label, "cannot be read");
    for (char* pointer : pointers) {
      texts.emplace_back(pointer != nullptr ? pointer : "");
      H5free_memory(pointer);
    }
    return texts;
  }
  const std::size_t size = H5Tget_size(open.type.get());
  std::string bytes(size * count, '\0');
  if (count > 0 && H5Aread(open.attribute.get(), open.type.get(), bytes.data()) < 0)
    fail_hdf5(name(), label, "cannot be read");
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view field(bytes.data() + i * size, size);
    texts.emplace_back(field.substr(0, std::min(field.find('\0'), size)));
  }
  return texts;
}

}  // namespace tandem
