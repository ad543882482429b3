// Reading and writing of NIfTI voxels. zlib reads plain and compressed files alike; the header is checked,
// and the size of the file held against it, before anything is allocated.
#include "data/nifti.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "data/nifti_header.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkValues = std::size_t{1} << 17;
// Deflate expands a byte to at most 1032; a header that declares more than that is a lie.
constexpr std::uint64_t kMaxExpansion = 1032;

class Input {
 public:
  explicit Input(const fs::path& path) : name_(path.string()), file_(nullptr, &gzclose) {
    expect_readable(path, "nifti", "a .nii or .nii.gz file");
    std::error_code error;
    stored_bytes_ = fs::file_size(path, error);
    file_.reset(gzopen(path.c_str(), "rb"));
    if (!file_) fail(ErrorKind::kResource, "[nifti] {}: cannot be opened: {}", name_, std::strerror(errno));
    gzbuffer(file_.get(), 1u << 17);
  }

  const std::string& name() const { return name_; }

  // Fills `bytes`; Error{kData} naming `what` if the file ends before, or its compressed data are damaged.
  void read(std::span<std::byte> bytes, std::string_view what) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto want =
          static_cast<unsigned>(std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30));
      const int got = gzread(file_.get(), bytes.data() + done, want);
      if (got <= 0) fail_short(what, done, bytes.size());
      done += static_cast<std::size_t>(got);
    }
  }
  void skip(std::size_t count, std::string_view what) {
    std::vector<std::byte> buffer(std::min<std::size_t>(count, 65536));
    for (std::size_t left = count; left > 0;) {
      const std::size_t n = std::min(left, buffer.size());
      read(std::span(buffer).first(n), what);
      left -= n;
    }
  }
  // Refuses a header that declares more bytes than the file can hold.
  void expect_at_most(std::uint64_t declared) const {
    const bool plain = gzdirect(file_.get()) != 0;
    const std::uint64_t possible = plain ? stored_bytes_ : stored_bytes_ * kMaxExpansion;
    if (declared > possible)
      fail(ErrorKind::kData,
           "[nifti] {}: size: got a {} of {} bytes, expected at least {} for the voxels that its header "
           "declares",
           name_, plain ? "file" : "compressed file", stored_bytes_,
           plain ? declared : declared / kMaxExpansion);
  }
  // Makes zlib read and compare the checksum behind the last byte. A file cut within it gives no error code
  // of gzread, only the state Z_BUF_ERROR.
  void finish() {
    std::byte extra;
    int code = Z_OK;
    const int got = gzread(file_.get(), &extra, 1);
    gzerror(file_.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR) fail_short("checksum", 0, 8);
  }

 private:
  [[noreturn]] void fail_short(std::string_view what, std::size_t done, std::size_t wanted) const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    const bool damaged = code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END;
    fail(ErrorKind::kData, "[nifti] {}: {}: got {} bytes{}, expected {}", name_, what, done,
         damaged ? fmt::format(" and damaged compressed data ({})", text) : " (the file is truncated)",
         wanted);
  }

  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::uint64_t stored_bytes_ = 0;
};

struct OpenNifti {
  std::unique_ptr<Input> input;
  NiftiHeader header;
  Geometry geometry;
};

OpenNifti open_nifti(const fs::path& path, const NiftiLimits& limits) {
  auto input = std::make_unique<Input>(path);
  std::vector<std::byte> bytes(kNiftiHeaderBytes);
  input->read(bytes, "header");
  const std::size_t first = bytes.size();
  bytes.resize(nifti_header_bytes(bytes, input->name()));
  input->read(std::span(bytes).subspan(first), "header");
  const NiftiHeader header = parse_nifti_header(bytes, input->name(), limits.voxels);
  const auto data_bytes = static_cast<std::uint64_t>(header.value_count()) * number_size(header.type);
  input->expect_at_most(header.data_offset + data_bytes);
  Geometry geometry(SourceGrid{header.shape, nifti_affine(header, input->name()), header.space});
  input->skip(header.data_offset - bytes.size(), "bytes before vox_offset");
  return {std::move(input), header, std::move(geometry)};
}

template <class T>
void decode(std::span<std::byte> bytes, bool swapped, std::span<double> values) {
  if (swapped && sizeof(T) > 1)
    for (std::size_t i = 0; i < values.size(); ++i)
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i * sizeof(T)),
                   bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * sizeof(T)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

// Calls take(first index, values) for consecutive chunks of the scaled voxel values.
template <class Take>
void for_each_chunk(OpenNifti& file, Take&& take) {
  const NiftiHeader& header = file.header;
  const auto total = static_cast<std::size_t>(header.value_count());
  std::vector<std::byte> bytes(std::min(total, kChunkValues) * number_size(header.type));
  std::vector<double> values(std::min(total, kChunkValues));
  for (std::size_t first = 0; first < total; first += kChunkValues) {
    const std::size_t n = std::min(kChunkValues, total - first);
    const auto chunk = std::span(bytes).first(n * number_size(header.type));
    const auto part = std::span(values).first(n);
    file.input->read(chunk, "voxel data");
    visit_number_type(header.type, [&](auto zero) { decode<decltype(zero)>(chunk, header.swapped, part); });
    if (header.slope != 1 || header.inter != 0)
      for (double& value : part) value = value * header.slope + header.inter;
    take(first, part);
  }
  file.input->finish();
}

std::vector<std::byte> gzip(std::span<const std::byte> bytes) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    fail(ErrorKind::kResource, "[nifti] zlib could not start compressing: {}",
         stream.msg ? stream.msg : "out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, &deflateEnd);
  std::vector<std::byte> result;
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  std::size_t taken = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0 && taken < bytes.size()) {
      const std::size_t n = std::min<std::size_t>(bytes.size() - taken, std::size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(
          const_cast<std::byte*>(bytes.data() + taken));  // zlib does not write there
      stream.avail_in = static_cast<uInt>(n);
      taken += n;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&stream, taken == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    check_internal(status == Z_OK || status == Z_STREAM_END, "deflate failed");
    result.insert(result.end(), buffer.begin(), buffer.end() - stream.avail_out);
  }
  return result;
}

template <class T>
void append_as(std::vector<std::byte>& bytes, std::span<const std::int32_t> values) {
  const std::size_t begin = bytes.size();
  bytes.resize(begin + values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + begin + i * sizeof(T), &value, sizeof(T));
  }
}

NumberType smallest_label_type(std::span<const std::int32_t> values) {
  std::int32_t low = 0, high = 0;
  for (const std::int32_t v : values) low = std::min(low, v), high = std::max(high, v);
  if (low >= 0 && high < 256) return NumberType::kU8;
  if (low >= 0 && high < 65536) return NumberType::kU16;
  if (low >= -32768 && high < 32768) return NumberType::kI16;
  return NumberType::kI32;
}

std::vector<std::byte> start_file(const fs::path& path, const Geometry& geometry, std::int64_t channels,
                                  NumberType type) {
  NiftiHeader header;
  header.type = type;
  header.shape = geometry.shape();
  header.channels = channels;
  header.space = geometry.source().space;
  for (const std::int64_t n : {header.shape[0], header.shape[1], header.shape[2], channels})
    if (n < 1)
      fail(ErrorKind::kData,
           "[nifti] {}: size: got {} voxels x {} channels, expected at least 1 along each axis",
           path.string(), to_string(header.shape), channels);
  return encode_nifti_header(header);
}

void finish_file(const fs::path& path, std::span<const std::byte> bytes) {
  if (path.extension() == ".gz")
    write_file_atomically(path, gzip(bytes));
  else
    write_file_atomically(path, bytes);
}

Index3 voxel_at(std::size_t index, const Index3& shape) {
  const auto i = static_cast<std::int64_t>(index);
  return {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
}

}  // namespace

Volume read_nifti(const fs::path& path, const NiftiLimits& limits) {
  OpenNifti file = open_nifti(path, limits);
  Volume volume{file.geometry, file.header.channels, {}};
  volume.values.resize(static_cast<std::size_t>(file.header.value_count()));
  for_each_chunk(file, [&](std::size_t first, std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) volume.values[first + i] = static_cast<float>(values[i]);
  });
  return volume;
}

NiftiInfo read_nifti_info(const fs::path& path, const NiftiLimits& limits) {
  const OpenNifti file = open_nifti(path, limits);
  return {file.geometry, file.header.channels};
}

LabelVolume read_nifti_labels(const fs::path& path, const NiftiLimits& limits) {
  OpenNifti file = open_nifti(path, limits);
  if (file.header.channels != 1)
    fail(ErrorKind::kData, "[nifti] {}: dim[4]: got a label map of {} channels, expected 1", path.string(),
         file.header.channels);
  LabelVolume volume{file.geometry, {}};
  volume.values.resize(static_cast<std::size_t>(file.header.value_count()));
  for_each_chunk(file, [&](std::size_t first, std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      if (!(std::abs(value) <= std::numeric_limits<std::int32_t>::max()) || value != std::trunc(value))
        fail(ErrorKind::kData,
             "[nifti] {}: label at voxel {} (z, y, x): got {}, expected a whole number within 32 bits",
             path.string(), to_string(voxel_at(first + i, file.header.shape)), value);
      volume.values[first + i] = static_cast<std::int32_t>(value);
    }
  });
  return volume;
}

void write_nifti(const fs::path& path, const LabelVolume& labels) {
  const LabelVolume stored = on_grid(labels, Geometry(labels.geometry.source()));
  const NumberType type = smallest_label_type(stored.values);
  std::vector<std::byte> bytes = start_file(path, stored.geometry, 1, type);
  visit_number_type(type, [&](auto zero) { append_as<decltype(zero)>(bytes, stored.values); });
  finish_file(path, bytes);
}

void write_nifti(const fs::path& path, const Volume& image) {
  const Volume stored = on_grid(image, Geometry(image.geometry.source()));
  std::vector<std::byte> bytes = start_file(path, stored.geometry, stored.channels, NumberType::kF32);
  const auto values = std::as_bytes(std::span(stored.values));
  bytes.insert(bytes.end(), values.begin(), values.end());
  finish_file(path, bytes);
}

}  // namespace tandem
