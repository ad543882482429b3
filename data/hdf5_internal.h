// What the hdf5_file*.cpp files share: the lock, owning handles, errors with HDF5's reason, and the checked
// opening of an object. The only header that includes hdf5.h; nothing else includes this one.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hdf5_file.h"

namespace tandem {

// Holds the process-wide lock of libhdf5 and, for this thread, turns its printing of errors off.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

// Owns one identifier of libhdf5 together with the function that closes it. Destroy it under the lock.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

struct Hdf5File::State {
  std::string name;
  Hdf5Limits limits;
  Hdf5Handle file;
  bool writable = false;
  ~State() {
    const Hdf5Lock lock;
    file = Hdf5Handle();
  }
};

// What an image that is being made is called.
inline constexpr const char* kImageName = "memory image";
// Throws Error{kResource} unless `bytes` and some more for libhdf5 can be had: where one of its first
// allocations fails, version 1.10 follows a null pointer (H5AC_create), which no error handler sees.
void expect_hdf5_room(const std::string& file, std::size_t bytes);

// "[hdf5] FILE: OBJECT: what (HDF5's reason)": Error{kData}, but Error{kResource} for an image that is being
// made, which nothing but a lack of memory can stop.
[[noreturn]] void fail_hdf5(const std::string& file, std::string_view object, std::string_view what);
// `id` with its closer, or fail_hdf5.
Hdf5Handle own_hdf5(hid_t id, Hdf5Handle::Close close, const std::string& file, std::string_view object,
                    std::string_view what);

// True if every part of `path` is a hard link; false if one is missing; Error{kData} at a soft or external
// link.
bool hdf5_path_exists(hid_t file, const std::string& name, std::string_view path);
// The group or dataset at `path`; Error{kData} if it is missing.
Hdf5Handle open_hdf5_object(hid_t file, const std::string& name, std::string_view path);
// Property list for links that makes the groups on the way.
Hdf5Handle hdf5_link_properties(const std::string& name);

hid_t hdf5_memory_type(NumberType type);  // in this machine's byte order
// The number type of a stored type of either byte order; Error{kData} for anything else.
NumberType hdf5_number_type(hid_t type, const std::string& name, std::string_view object);
// Sizes of a simple or scalar data space of rank 0..8, product checked against `max_bytes / element_bytes`.
std::vector<std::int64_t> hdf5_extent(hid_t space, std::size_t element_bytes, std::int64_t max_bytes,
                                      const std::string& name, std::string_view object);

}  // namespace tandem
