// HDF5 files behind RAII: read from disk with every size checked first, or built and opened as memory images.
// The only place that includes hdf5.h is hdf5_file*.cpp; what data and checkpoints store in such files is
// elsewhere.
//
// libhdf5 is not thread-safe: every call here takes one process-wide lock, so any thread may use any file.
// Errors: Error{kData} "[hdf5] FILE: OBJECT: ..." with HDF5's own reason; Error{kResource} for memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "data/number_type.h"

namespace tandem {

// What a reader accepts before it allocates. Beyond these: hard links only; contiguous, compact or chunked
// layout; filters deflate, shuffle and fletcher32; no external storage, no virtual datasets, no plug-ins.
struct Hdf5Limits {
  std::int64_t dataset_bytes = std::int64_t{1} << 40;  // size in the type of the file
  std::int64_t chunk_bytes = std::int64_t{1} << 28;    // one chunk, decompressed
};

struct Hdf5DatasetInfo {
  NumberType type = NumberType::kU8;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    return n;
  }
};

// How a dataset is stored. Without a chunk shape: contiguous.
struct Hdf5Storage {
  std::vector<std::int64_t> chunk = {};  // same rank as the dataset, clipped to its shape
  int deflate = 0;                       // 1..9; 0: off. Needs a chunk shape, as shuffle
  bool shuffle = false;
};

// Runs `body`, which reads `file` through this library, in a child process with limits first
// (data/limited_child.h): what crashes or hangs libhdf5 becomes Error{kData}. libhdf5 makes no promise about
// hostile files (its SECURITY.md).
void try_hdf5_in_child(const std::filesystem::path& file, const std::function<void()>& body);

// One open file. Objects are named by paths: "/raw", "/model/enc0.conv1.weight". Movable; closed by the
// destructor.
class Hdf5File {
 public:
  // Read-only, without locking the file.
  static Hdf5File open(const std::filesystem::path& path, const Hdf5Limits& limits = {});
  // A new, empty file in memory, never written to disk by itself; see image().
  static Hdf5File create_image();
  // Read-only, from the bytes of a file; `name` stands for it in errors.
  static Hdf5File open_image(std::span<const std::byte> bytes, std::string name,
                             const Hdf5Limits& limits = {});

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  const std::string& name() const;
  // The bytes of a created file so far. The same writes give the same bytes (no time stamps).
  std::vector<std::byte> image() const;

  // --- what is there
  // -----------------------------------------------------------------------------------------
  bool exists(std::string_view path) const;
  bool is_group(std::string_view path) const;
  // Names directly below a group, sorted.
  std::vector<std::string> children(std::string_view group) const;
  // Type and shape of a dataset of numbers, after all checks of Hdf5Limits.
  Hdf5DatasetInfo info(std::string_view path) const;

  // --- datasets of numbers, row-major
  // ------------------------------------------------------------------------- Groups on the way are made.
  // `bytes` holds the product of `shape` values of `type`.
  void write(std::string_view path, NumberType type, std::span<const std::int64_t> shape,
             std::span<const std::byte> bytes, const Hdf5Storage& storage = {});
  // The whole dataset converted to `type` (HDF5's conversion: rounds to nearest, clips at the type's limits);
  // Error{kData} unless `bytes` has exactly its size.
  void read(std::string_view path, NumberType type, std::span<std::byte> bytes) const;
  // The box of `size` at `begin` (one entry per axis); only the chunks that it touches are read.
  void read_box(std::string_view path, NumberType type, std::span<const std::int64_t> begin,
                std::span<const std::int64_t> size, std::span<std::byte> bytes) const;

  template <class T>
  void write(std::string_view path, std::span<const std::int64_t> shape, std::span<const T> values,
             const Hdf5Storage& storage = {}) {
    write(path, number_type_of<T>(), shape, std::as_bytes(values), storage);
  }
  template <class T>
  std::vector<T> read(std::string_view path) const {
    std::vector<T> values(static_cast<std::size_t>(info(path).count()));
    read(path, number_type_of<T>(), std::as_writable_bytes(std::span(values)));
    return values;
  }

  // --- text datasets (UTF-8, any length)
  // ------------------------------------------------------------------------
  void write_text(std::string_view path, std::string_view text);
  std::string read_text(std::string_view path, std::int64_t max_bytes = std::int64_t{16} << 20) const;

  // --- attributes of a group or dataset: small, at most 32 KiB
  // ---------------------------------------------------
  bool has_attribute(std::string_view object, const std::string& attribute) const;
  void write_attribute(std::string_view object, const std::string& attribute, std::span<const double> values,
                       std::span<const std::int64_t> shape = {});  // without a shape: one axis
  void write_attribute(std::string_view object, const std::string& attribute,
                       std::span<const std::int64_t> values);
  void write_attribute(std::string_view object, const std::string& attribute,
                       const std::vector<std::string>& texts);
  // All values in row-major order. Texts: of fixed or variable length, one or a list.
  std::vector<double> read_numbers(std::string_view object, const std::string& attribute) const;
  std::vector<std::int64_t> read_integers(std::string_view object, const std::string& attribute) const;
  std::vector<std::string> read_texts(std::string_view object, const std::string& attribute) const;

 private:
  struct State;
  explicit Hdf5File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem
