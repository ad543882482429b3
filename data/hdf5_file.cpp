// Opening, closing and walking HDF5 files; the shared pieces of hdf5_internal.h.
#include "data/hdf5_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "core/base/files.h"
#include "data/hdf5_internal.h"
#include "data/limited_child.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImageGrowth = std::size_t{4} << 20;

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// The innermost entry of HDF5's error stack, which names the cause.
std::string hdf5_reason() {
  std::string reason;
  const auto take = [](unsigned, const H5E_error2_t* entry, void* text) -> herr_t {
    try {  // no exception may pass through libhdf5: see children()
      if (entry->desc != nullptr && *entry->desc != '\0') *static_cast<std::string*>(text) = entry->desc;
      return 0;
    } catch (const std::bad_alloc&) {
      return -1;
    }
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason;
}

// libhdf5 takes two images of one name for the same file; nothing of this name is ever written.
std::string image_name() {
  static std::uint64_t number = 0;  // under the lock
  return fmt::format("tandem-image-{}", ++number);
}

Hdf5Handle file_access(const std::string& name) {
  Hdf5Handle access = own_hdf5(H5Pcreate(H5P_FILE_ACCESS), &H5Pclose, name, "/", "no file access list");
  // Files are replaced by renames, never changed in place, so a lock protects nothing and fails on some
  // networks.
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(library_mutex()) {
  static const herr_t plugins_off = H5PLset_loading_state(0);
  static_cast<void>(plugins_off);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // per thread in a thread-safe libhdf5, so each time
}

void try_hdf5_in_child(const fs::path& file, const std::function<void()>& body) {
  constexpr std::int64_t kBytesPerSecond = 4 << 20;
  expect_readable(file, "hdf5", "an HDF5 file");
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file, error));
  const std::int64_t seconds = 30 + bytes / kBytesPerSecond;
  const Hdf5Lock lock;  // so that no other thread is inside the library when the process forks
  run_limited(
      "hdf5", file.string(),
      {.memory_bytes = (std::int64_t{1} << 30) + bytes + bytes / 2, .cpu_s = seconds, .wall_s = 10 * seconds},
      [&] {
        // The mutex belongs to a thread of the parent; in the child there is no other thread.
        new (&library_mutex()) std::recursive_mutex;
        body();
      });
}

void expect_hdf5_room(const std::string& file, std::size_t bytes) {
  constexpr std::size_t kLibrary = std::size_t{12} << 20;
  // Not by malloc, which after a large block keeps others of its size to itself.
  void* const room =
      ::mmap(nullptr, bytes + kLibrary, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    throw Error(ErrorKind::kResource,
                fmt::format("[hdf5] {}: got no {} MiB of memory, expected some to work in", file,
                            (bytes + kLibrary) >> 20),
                "Free memory, or raise the limit of this process.");
  ::munmap(room, bytes + kLibrary);
}

void fail_hdf5(const std::string& file, std::string_view object, std::string_view what) {
  const std::string reason = hdf5_reason();
  fail(file == kImageName ? ErrorKind::kResource : ErrorKind::kData, "[hdf5] {}: {}: {}{}", file, object,
       what, reason.empty() ? "" : " (" + reason + ")");
}

Hdf5Handle own_hdf5(hid_t id, Hdf5Handle::Close close, const std::string& file, std::string_view object,
                    std::string_view what) {
  if (id < 0) fail_hdf5(file, object, what);
  return Hdf5Handle(id, close);
}

bool hdf5_path_exists(hid_t file, const std::string& name, std::string_view path) {
  std::size_t end = 0;
  while (end < path.size()) {
    const std::size_t begin = path.find_first_not_of('/', end);
    if (begin == std::string_view::npos) break;
    end = std::min(path.find('/', begin), path.size());
    const std::string part(path.substr(0, end));
    const htri_t there = H5Lexists(file, part.c_str(), H5P_DEFAULT);
    if (there < 0) fail_hdf5(name, part, "cannot be looked up");
    if (there == 0) return false;
    H5L_info_t link{};
    if (H5Lget_info(file, part.c_str(), &link, H5P_DEFAULT) < 0) fail_hdf5(name, part, "cannot be looked up");
    if (link.type != H5L_TYPE_HARD)
      fail(ErrorKind::kData, "[hdf5] {}: {}: got a {} link, expected the object itself", name, part,
           link.type == H5L_TYPE_SOFT ? "soft" : "external");
  }
  return true;
}

Hdf5Handle open_hdf5_object(hid_t file, const std::string& name, std::string_view path) {
  if (!hdf5_path_exists(file, name, path))
    fail(ErrorKind::kData, "[hdf5] {}: {}: got nothing of this name, expected a dataset or group", name,
         path);
  return own_hdf5(H5Oopen(file, std::string(path).c_str(), H5P_DEFAULT), &H5Oclose, name, path,
                  "cannot be opened");
}

Hdf5Handle hdf5_link_properties(const std::string& name) {
  Hdf5Handle properties = own_hdf5(H5Pcreate(H5P_LINK_CREATE), &H5Pclose, name, "/", "no link creation list");
  H5Pset_create_intermediate_group(properties.get(), 1);
  return properties;
}

Hdf5File::Hdf5File(std::unique_ptr<State> state) : state_(std::move(state)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;

const std::string& Hdf5File::name() const { return state_->name; }

Hdf5File Hdf5File::open(const fs::path& path, const Hdf5Limits& limits) {
  const Hdf5Lock lock;
  auto state = std::make_unique<State>();
  state->name = path.string();
  state->limits = limits;
  expect_readable(path, "hdf5", "an HDF5 file");
  expect_hdf5_room(state->name, 0);
  const Hdf5Handle access = file_access(state->name);
  state->file = own_hdf5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), &H5Fclose, state->name, "file",
                         "got something that is no intact HDF5 file");
  return Hdf5File(std::move(state));
}

Hdf5File Hdf5File::create_image() {
  const Hdf5Lock lock;
  auto state = std::make_unique<State>();
  state->name = kImageName;
  state->writable = true;
  expect_hdf5_room(state->name, kImageGrowth);
  const Hdf5Handle access = file_access(state->name);
  // Default library version bounds: with any others libhdf5 1.10.8 writes images that it cannot open again.
  H5Pset_fapl_core(access.get(), kImageGrowth, 0);
  const Hdf5Handle creation =
      own_hdf5(H5Pcreate(H5P_FILE_CREATE), &H5Pclose, state->name, "/", "no file creation list");
  H5Pset_obj_track_times(creation.get(), false);
  state->file = own_hdf5(H5Fcreate(image_name().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
                         &H5Fclose, state->name, "file", "cannot be created in memory");
  return Hdf5File(std::move(state));
}

Hdf5File Hdf5File::open_image(std::span<const std::byte> bytes, std::string name, const Hdf5Limits& limits) {
  const Hdf5Lock lock;
  auto state = std::make_unique<State>();
  state->name = std::move(name);
  state->limits = limits;
  expect_hdf5_room(state->name, bytes.size());
  const Hdf5Handle access = file_access(state->name);
  H5Pset_fapl_core(access.get(), kImageGrowth, 0);
  // HDF5 copies the bytes; the parameter is not const only because other callers may hand the buffer over.
  if (H5Pset_file_image(access.get(), const_cast<std::byte*>(bytes.data()), bytes.size()) < 0)
    fail_hdf5(state->name, "file", "cannot be copied to memory");
  state->file = own_hdf5(H5Fopen(image_name().c_str(), H5F_ACC_RDONLY, access.get()), &H5Fclose, state->name,
                         "file", "got something that is no intact HDF5 file");
  return Hdf5File(std::move(state));
}

std::vector<std::byte> Hdf5File::image() const {
  const Hdf5Lock lock;
  const hid_t file = state_->file.get();
  if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail_hdf5(name(), "file", "cannot be flushed");
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  if (size < 0) fail_hdf5(name(), "file", "has no image");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file, bytes.data(), bytes.size()) != size)
    fail_hdf5(name(), "file", "cannot be copied");
  return bytes;
}

bool Hdf5File::exists(std::string_view path) const {
  const Hdf5Lock lock;
  return hdf5_path_exists(state_->file.get(), name(), path);
}

bool Hdf5File::is_group(std::string_view path) const {
  const Hdf5Lock lock;
  if (!hdf5_path_exists(state_->file.get(), name(), path)) return false;
  const Hdf5Handle object = open_hdf5_object(state_->file.get(), name(), path);
  return H5Iget_type(object.get()) == H5I_GROUP;
}

std::vector<std::string> Hdf5File::children(std::string_view group) const {
  const Hdf5Lock lock;
  const Hdf5Handle object = open_hdf5_object(state_->file.get(), name(), group);
  if (H5Iget_type(object.get()) != H5I_GROUP)
    fail(ErrorKind::kData, "[hdf5] {}: {}: got a dataset, expected a group", name(), group);
  // An exception that passed through libhdf5 would leave a group of it open: a crash at the program's end.
  struct Names {
    std::vector<std::string> all;
    bool out_of_memory = false;
  } names;
  const auto take = [](hid_t, const char* child, const H5L_info_t*, void* taken) -> herr_t {
    auto& list = *static_cast<Names*>(taken);
    try {
      list.all.emplace_back(child);
    } catch (const std::bad_alloc&) {
      list.out_of_memory = true;
    }
    return list.out_of_memory ? -1 : 0;
  };
  hsize_t position = 0;
  if (H5Literate(object.get(), H5_INDEX_NAME, H5_ITER_INC, &position, take, &names) < 0) {
    if (names.out_of_memory) throw std::bad_alloc();
    fail_hdf5(name(), group, "cannot be listed");
  }
  std::sort(names.all.begin(), names.all.end());
  return names.all;
}

}  // namespace tandem
