// Layout, writing and reading of brick files.
#include "data/brick_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEdge = 32, kBrickVoxels = kEdge * kEdge * kEdge;
constexpr std::int64_t kMaxHeader = std::int64_t{1} << 32;
constexpr char kMagic[8] = {'T', 'D', 'B', 'R', 'I', 'C', 'K', '1'};

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Header {
  char magic[8];
  std::uint64_t digest;  // of all bytes from `key` to the voxels
  CacheKey key;
  std::int64_t file_bytes, voxels_at;
  std::int64_t shape[3], channels, has_labels, has_weights, index_words;
};
constexpr std::size_t kDigestFrom = sizeof(kMagic) + sizeof(std::uint64_t);

Index3 brick_counts(const Index3& shape) {
  return {(shape[0] + kEdge - 1) / kEdge, (shape[1] + kEdge - 1) / kEdge, (shape[2] + kEdge - 1) / kEdge};
}

std::int64_t image_bytes(const BrickInfo& info) { return kBrickVoxels * info.channels * 4; }
std::int64_t weight_bytes(const BrickInfo& info) { return info.has_weights ? kBrickVoxels * 4 : 0; }
std::int64_t class_bytes(const BrickInfo& info) { return info.has_labels ? kBrickVoxels : 0; }
std::int64_t brick_bytes(const BrickInfo& info) {
  return 8 + image_bytes(info) + weight_bytes(info) + class_bytes(info);
}

[[noreturn]] void fail_system(const fs::path& path, const char* what) {
  fail(ErrorKind::kResource, "[cache] {}: {}: {}", path.string(), what, std::strerror(errno));
}

void write_all(int descriptor, const fs::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_system(path, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

bool read_at(int descriptor, std::span<std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(descriptor, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  return true;
}

// Header, scales and class index as they stand before the voxels.
std::vector<std::byte> encode_header(const CacheKey& key, const BrickInfo& info) {
  const std::vector<std::uint32_t> index = info.foreground.packed();
  const std::size_t scales = info.scales.size() * sizeof(ChannelScale),
                    words = index.size() * sizeof(std::uint32_t);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key = key;
  header.voxels_at = static_cast<std::int64_t>((sizeof(Header) + scales + words + 4095) / 4096 * 4096);
  header.file_bytes = header.voxels_at + BrickFile::voxel_bytes(info);
  std::copy(info.shape.begin(), info.shape.end(), header.shape);
  header.channels = info.channels;
  header.has_labels = info.has_labels;
  header.has_weights = info.has_weights;
  header.index_words = static_cast<std::int64_t>(index.size());
  std::vector<std::byte> bytes(as_size(header.voxels_at));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), info.scales.data(), scales);
  if (words > 0) std::memcpy(bytes.data() + sizeof(header) + scales, index.data(), words);
  header.digest = XXH3_64bits(bytes.data() + kDigestFrom, bytes.size() - kDigestFrom);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

// One brick from a layer [depth, shape y, shape x] of the volume.
struct Layer {
  std::int64_t depth = 0;
  std::vector<float> image, weights;
  std::vector<std::uint8_t> classes;
};

template <class T>
void copy_rows(const std::vector<T>& from, T* to, const BrickInfo& info, const Index3& corner,
               std::int64_t depth) {
  const std::int64_t values =
      static_cast<std::int64_t>(from.size()) / (depth * info.shape[1] * info.shape[2]);
  const std::int64_t rows = std::min(kEdge, info.shape[1] - corner[1]),
                     length = std::min(kEdge, info.shape[2] - corner[2]);
  for (std::int64_t z = 0; z < depth; ++z)
    for (std::int64_t y = 0; y < rows; ++y)
      std::copy_n(from.begin() + ((z * info.shape[1] + corner[1] + y) * info.shape[2] + corner[2]) * values,
                  length * values, to + (z * kEdge + y) * kEdge * values);
}

void encode_brick(const Layer& layer, const BrickInfo& info, const Index3& corner,
                  std::vector<std::byte>& bytes) {
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  std::byte* at = bytes.data() + 8;
  copy_rows(layer.image, reinterpret_cast<float*>(at), info, corner, layer.depth);
  at += image_bytes(info);
  if (info.has_weights) copy_rows(layer.weights, reinterpret_cast<float*>(at), info, corner, layer.depth);
  at += weight_bytes(info);
  if (info.has_labels)
    copy_rows(layer.classes, reinterpret_cast<std::uint8_t*>(at), info, corner, layer.depth);
  const std::uint64_t digest = XXH3_64bits(bytes.data() + 8, bytes.size() - 8);
  std::memcpy(bytes.data(), &digest, sizeof(digest));
}

void write_content(int descriptor, const fs::path& path, const CacheKey& key, const BrickInfo& info,
                   const BrickSource& source) {
  write_all(descriptor, path, encode_header(key, info));
  std::vector<std::byte> brick(as_size(brick_bytes(info)));
  for (std::int64_t z = 0; z < info.shape[0]; z += kEdge) {
    Layer layer{.depth = std::min(kEdge, info.shape[0] - z)};
    const Index3 size{layer.depth, info.shape[1], info.shape[2]};
    layer.image.resize(as_size(voxel_count(size) * info.channels));
    if (info.has_weights) layer.weights.resize(as_size(voxel_count(size)));
    if (info.has_labels) layer.classes.resize(as_size(voxel_count(size)));
    source({z, 0, 0}, size, {layer.image, layer.classes, layer.weights});
    for (std::int64_t y = 0; y < info.shape[1]; y += kEdge)
      for (std::int64_t x = 0; x < info.shape[2]; x += kEdge) {
        encode_brick(layer, info, {z, y, x}, brick);
        write_all(descriptor, path, brick);
      }
  }
  if (::fsync(descriptor) != 0) fail_system(path, "fsync");
}

}  // namespace

std::int64_t BrickFile::voxel_bytes(const BrickInfo& info) {
  return voxel_count(brick_counts(info.shape)) * brick_bytes(info);
}

void BrickFile::write(const fs::path& path, const CacheKey& key, const BrickInfo& info,
                      const BrickSource& source) {
  const std::int64_t needed = voxel_bytes(info), free = free_disk_bytes(path.parent_path());
  if (needed > free)
    throw Error(
        ErrorKind::kResource,
        fmt::format("[cache] {}: got {} bytes free, expected {}", path.parent_path().string(), free, needed),
        "Free some space, or set data.cache_folder, or data.cache: none.");
  const fs::path temporary =
      path.parent_path() / fmt::format(".tmp-{}-{}", ::getpid(), path.filename().string());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_system(temporary, "cannot be created");
  try {
    write_content(descriptor, temporary, key, info, source);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_system(path, "rename");
  } catch (...) {
    ::close(descriptor);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(descriptor);
}

std::unique_ptr<BrickFile> BrickFile::open(const fs::path& path, const CacheKey& key) {
  std::unique_ptr<BrickFile> file(new BrickFile);
  file->path_ = path;
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->descriptor_ < 0) return nullptr;
  struct stat status {};
  Header header{};
  if (::fstat(file->descriptor_, &status) != 0 ||
      !read_at(file->descriptor_, std::as_writable_bytes(std::span(&header, 1)), 0) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.key != key ||
      header.file_bytes != status.st_size || header.voxels_at < static_cast<std::int64_t>(sizeof(Header)) ||
      header.voxels_at > std::min(kMaxHeader, header.file_bytes))
    return nullptr;
  std::vector<std::byte> bytes(as_size(header.voxels_at));
  if (!read_at(file->descriptor_, bytes, 0) ||
      XXH3_64bits(bytes.data() + kDigestFrom, bytes.size() - kDigestFrom) != header.digest)
    return nullptr;
  BrickInfo& info = file->info_;
  info.shape = {header.shape[0], header.shape[1], header.shape[2]};
  info.channels = header.channels;
  info.has_labels = header.has_labels != 0;
  info.has_weights = header.has_weights != 0;
  info.scales.resize(as_size(header.channels));
  std::memcpy(info.scales.data(), bytes.data() + sizeof(Header), info.scales.size() * sizeof(ChannelScale));
  std::vector<std::uint32_t> index(as_size(header.index_words));
  if (!index.empty())
    std::memcpy(index.data(), bytes.data() + sizeof(Header) + info.scales.size() * sizeof(ChannelScale),
                index.size() * sizeof(std::uint32_t));
  info.foreground = ClassIndex::unpacked(index, info.shape);
  file->voxels_at_ = header.voxels_at;
  return file;
}

BrickFile::~BrickFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void BrickFile::read_brick(const Index3& brick, std::span<std::byte> bytes) const {
  const Index3 counts = brick_counts(info_.shape);
  const std::int64_t number = (brick[0] * counts[1] + brick[1]) * counts[2] + brick[2];
  if (!read_at(descriptor_, bytes, voxels_at_ + number * brick_bytes(info_)))
    fail_system(path_, "cannot be read");
  std::uint64_t digest = 0;
  std::memcpy(&digest, bytes.data(), sizeof(digest));
  if (XXH3_64bits(bytes.data() + 8, bytes.size() - 8) != digest)
    throw Error(ErrorKind::kData,
                fmt::format("[cache] {}: brick {}: got another digest than was written, expected the same",
                            path_.string(), to_string(brick)),
                "The disk has changed it: delete the file, it is made again.");
}

void BrickFile::read(const Index3& begin, const Index3& size, const BrickParts& parts) const {
  Index3 first, last;
  for (std::size_t a = 0; a < 3; ++a) first[a] = begin[a] / kEdge, last[a] = (begin[a] + size[a] - 1) / kEdge;
  const auto copy = [&](const auto* from, auto to, const Index3& low, const Index3& high,
                        const Index3& corner, std::int64_t values) {
    for (std::int64_t z = low[0]; z < high[0]; ++z)
      for (std::int64_t y = low[1]; y < high[1]; ++y)
        std::copy_n(
            from + (((z - corner[0]) * kEdge + y - corner[1]) * kEdge + low[2] - corner[2]) * values,
            (high[2] - low[2]) * values,
            to.begin() + (((z - begin[0]) * size[1] + y - begin[1]) * size[2] + low[2] - begin[2]) * values);
  };
  std::vector<std::byte> bytes(as_size(brick_bytes(info_)));  // one for all: large blocks are slow to come by
  Index3 brick;
  for (brick[0] = first[0]; brick[0] <= last[0]; ++brick[0])
    for (brick[1] = first[1]; brick[1] <= last[1]; ++brick[1])
      for (brick[2] = first[2]; brick[2] <= last[2]; ++brick[2]) {
        read_brick(brick, bytes);
        Index3 corner, low, high;
        for (std::size_t a = 0; a < 3; ++a) {
          corner[a] = brick[a] * kEdge;
          low[a] = std::max(begin[a], corner[a]);
          high[a] = std::min(begin[a] + size[a], corner[a] + kEdge);
        }
        const std::byte* at = bytes.data() + 8;
        if (!parts.image.empty())
          copy(reinterpret_cast<const float*>(at), parts.image, low, high, corner, info_.channels);
        at += image_bytes(info_);
        if (!parts.weights.empty() && info_.has_weights)
          copy(reinterpret_cast<const float*>(at), parts.weights, low, high, corner, 1);
        else
          std::fill(parts.weights.begin(), parts.weights.end(), 1.0f);
        at += weight_bytes(info_);
        if (!parts.classes.empty())
          copy(reinterpret_cast<const std::uint8_t*>(at), parts.classes, low, high, corner, 1);
      }
}

}  // namespace tandem
