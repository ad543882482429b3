// The 512-byte header of a checkpoint file and the digest of what follows it.
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <memory>

#include "core/base/error.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "TANDEM1\n";
constexpr std::size_t kVersionAt = 8, kLengthAt = 16, kDigestAt = 24, kStepAt = 40;

void put_little_endian(std::span<std::byte> bytes, std::uint64_t value) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint64_t get_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::array<std::byte, 16> canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::array<std::byte, 16> result;
  std::memcpy(result.data(), bytes.digest, result.size());
  return result;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

std::ifstream open_for_reading(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: got {}, expected a checkpoint file", path.string(),
         fs::exists(path, error) ? "something that is not a file" : "no such file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    fail(ErrorKind::kResource, "[checkpoint] {}: cannot be opened: {}", path.string(), std::strerror(errno));
  return stream;
}

}  // namespace

std::array<std::byte, kCheckpointHeaderBytes> encode_header(const CheckpointHeader& header) {
  std::array<std::byte, kCheckpointHeaderBytes> bytes{};
  const std::span<std::byte> all(bytes);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put_little_endian(all.subspan(kVersionAt, 4), kCheckpointVersion);
  put_little_endian(all.subspan(kLengthAt, 8), header.payload_bytes);
  std::memcpy(bytes.data() + kDigestAt, header.digest.data(), header.digest.size());
  put_little_endian(all.subspan(kStepAt, 8), static_cast<std::uint64_t>(header.step));
  return bytes;
}

CheckpointHeader read_header(const fs::path& path) {
  std::ifstream stream = open_for_reading(path);
  std::array<std::byte, kCheckpointHeaderBytes> bytes{};
  const std::span<const std::byte> all(bytes);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (stream.gcount() != static_cast<std::streamsize>(bytes.size()))
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: torn: got {} bytes, expected a header of {}",
         path.string(), stream.gcount(), kCheckpointHeaderBytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail(ErrorKind::kCheckpoint,
         "[checkpoint] {}: not a checkpoint: got first bytes {}, expected {} (\"TANDEM1\\n\")", path.string(),
         hex(all.first(kMagic.size())), hex(std::as_bytes(std::span(kMagic.data(), kMagic.size()))));
  const auto version = static_cast<std::uint32_t>(get_little_endian(all.subspan(kVersionAt, 4)));
  if (version != kCheckpointVersion)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[checkpoint] {}: format version: got {}, expected {}", path.string(), version,
                            kCheckpointVersion),
                version > kCheckpointVersion ? "Use the newer release of tandem that wrote it." : "");
  CheckpointHeader header;
  header.payload_bytes = get_little_endian(all.subspan(kLengthAt, 8));
  std::memcpy(header.digest.data(), bytes.data() + kDigestAt, header.digest.size());
  header.step = static_cast<std::int64_t>(get_little_endian(all.subspan(kStepAt, 8)));
  // One accepted encoding: what is reserved is zero, so a flipped bit there is seen too.
  if (header.step < 0 || encode_header(header) != bytes)
    fail(ErrorKind::kCheckpoint,
         "[checkpoint] {}: damaged header: got step {} and reserved bytes that are {}zero, expected a step "
         ">= 0 and zeros",
         path.string(), header.step, encode_header(header) == bytes ? "" : "not ");
  const std::uint64_t size = fs::file_size(path);
  if (size - kCheckpointHeaderBytes != header.payload_bytes)
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: torn: got {} bytes after the header, expected {}",
         path.string(), size - kCheckpointHeaderBytes, header.payload_bytes);
  return header;
}

std::array<std::byte, 16> payload_digest(std::span<const std::byte> payload) {
  return canonical(XXH3_128bits(payload.data(), payload.size()));
}

void check_digest(const fs::path& path, const CheckpointHeader& header) {
  std::ifstream stream = open_for_reading(path);
  stream.seekg(kCheckpointHeaderBytes);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(std::min<std::uint64_t>(header.payload_bytes, std::uint64_t{1} << 20) + 1);
  std::uint64_t size = 0;
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0) {
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(stream.gcount()));
    size += static_cast<std::uint64_t>(stream.gcount());
  }
  const std::array<std::byte, 16> digest = canonical(XXH3_128bits_digest(state.get()));
  if (size != header.payload_bytes || digest != header.digest)
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: damaged: got digest {} of {} bytes, expected {} of {}",
         path.string(), hex(digest), size, hex(header.digest), header.payload_bytes);
}

}  // namespace tandem
