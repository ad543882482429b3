// Framing and wire format by hand: five fields do not need a protobuf library.
#include "train/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::uint64_t kMaxRecordBytes = 1 << 20;  // ours are below; more is damage
constexpr std::size_t kHeaderBytes = 12, kFooterBytes = 4;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}

std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

template <class T>
void put_little(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

template <class T>
T get_little(const char* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// Protobuf wire format: a field is varint(number * 8 + type), then its value.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(wire));
}
void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// The fields that every Event begins with.
std::string event_head(double wall_time, std::int64_t step) {
  std::string out;
  put_key(out, 1, Wire::kFixed64);
  put_little(out, std::bit_cast<std::uint64_t>(wall_time));
  if (step != 0) {
    put_key(out, 2, Wire::kVarint);
    put_varint(out, static_cast<std::uint64_t>(step));
  }
  return out;
}

std::optional<std::uint64_t> get_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !data.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(data.front());
    data.remove_prefix(1);
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

// What an Event of ours says; only its head is looked at.
struct EventHead {
  std::int64_t step = 0;
  bool is_version = false, is_session_start = false;
};

std::optional<EventHead> parse_event(std::string_view data) {
  EventHead head;
  while (!data.empty()) {
    const auto key = get_varint(data);
    if (!key) return std::nullopt;
    const std::uint64_t field = *key >> 3;
    std::uint64_t skip = 0;
    if ((*key & 7) == static_cast<std::uint64_t>(Wire::kVarint)) {
      const auto value = get_varint(data);
      if (!value) return std::nullopt;
      if (field == 2) head.step = static_cast<std::int64_t>(*value);
    } else if ((*key & 7) == static_cast<std::uint64_t>(Wire::kFixed64)) {
      skip = 8;
    } else if ((*key & 7) == static_cast<std::uint64_t>(Wire::kBytes)) {
      const auto size = get_varint(data);
      if (!size) return std::nullopt;
      skip = *size;
      head.is_version |= field == 3;
      head.is_session_start |= field == 7;
    } else {
      return std::nullopt;
    }
    if (skip > data.size()) return std::nullopt;
    data.remove_prefix(skip);
  }
  return head;
}

// The next record's data; nothing at the end of the file or at damage.
std::optional<std::string> read_record(std::istream& stream) {
  std::array<char, kHeaderBytes> header;
  if (!stream.read(header.data(), kHeaderBytes)) return std::nullopt;
  const auto size = get_little<std::uint64_t>(header.data());
  if (masked_crc({header.data(), 8}) != get_little<std::uint32_t>(header.data() + 8) ||
      size > kMaxRecordBytes)
    return std::nullopt;
  std::string data(size + kFooterBytes, '\0');
  if (!stream.read(data.data(), static_cast<std::streamsize>(data.size()))) return std::nullopt;
  const auto crc = get_little<std::uint32_t>(data.data() + size);
  data.resize(size);
  return masked_crc(data) == crc ? std::optional(std::move(data)) : std::nullopt;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool truncate_file(const fs::path& path, std::int64_t step) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(ErrorKind::kResource, "[tensorboard] {}: cannot be opened", path.string());
  std::uintmax_t end = 0;
  bool holds_scalars = false;
  while (const auto data = read_record(stream)) {
    const auto head = parse_event(*data);
    if (!head || head->step > step) break;
    end += kHeaderBytes + data->size() + kFooterBytes;
    holds_scalars |= !head->is_version && !head->is_session_start;
  }
  stream.close();
  if (!holds_scalars) {
    remove_file(path);
    return true;
  }
  if (end == fs::file_size(path)) return false;
  std::error_code error;
  fs::resize_file(path, end, error);
  if (error)
    fail(ErrorKind::kResource, "[tensorboard] {}: truncation failed: {}", path.string(), error.message());
  return true;
}

// <seconds>.<NNN> of a file's name; zeros where it has another form.
std::pair<std::int64_t, int> numbers_of(const fs::path& path) {
  std::pair<std::int64_t, int> numbers{0, 0};
  const std::string name = path.filename().string();
  const char* const end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data() + kPrefix.size(), end, numbers.first);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, numbers.second);
  return numbers;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string out;
  put_little(out, static_cast<std::uint64_t>(data.size()));
  put_little(out, masked_crc(out));
  out += data;
  put_little(out, masked_crc(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event_head(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {  // Summary.value 1: tag 1, simple_value 2
    std::string entry;
    put_bytes(entry, 1, tag);
    put_key(entry, 2, Wire::kFixed32);
    put_little(entry, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    put_bytes(summary, 1, entry);
  }
  std::string out = event_head(wall_time, step);
  put_bytes(out, 5, summary);
  return out;
}

std::string session_start_event(double wall_time, std::int64_t step) {
  std::string session;  // SessionLog.status 1 = START 1
  put_key(session, 1, Wire::kVarint);
  put_varint(session, 1);
  std::string out = event_head(wall_time, step);
  put_bytes(out, 7, session);
  return out;
}

TensorboardWriter::TensorboardWriter(const fs::path& folder, std::int64_t first_step) {
  // Files are read in the order of their names: a clock that was set back must not put the newest one first.
  const std::vector<fs::path> files = tensorboard_files(folder);
  const double now = now_seconds();
  auto [seconds, number] = files.empty() ? std::pair<std::int64_t, int>{0, -1} : numbers_of(files.back());
  seconds = std::max(seconds, static_cast<std::int64_t>(now));
  file_ = std::make_unique<AppendFile>(folder / fmt::format("{}{:010}.{:03}", kPrefix, seconds, number + 1));
  file_->append(tf_record(version_event(now)));
  file_->append(tf_record(session_start_event(now, first_step)));
}

void TensorboardWriter::write(std::int64_t step, const Scalars& scalars) {
  file_->append(tf_record(scalars_event(now_seconds(), step, scalars)));
}

std::vector<fs::path> tensorboard_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(kPrefix) && at->is_regular_file(error))
      files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

bool truncate_tensorboard(const fs::path& folder, std::int64_t step) {
  bool cut = false;
  for (const fs::path& path : tensorboard_files(folder)) cut |= truncate_file(path, step);
  return cut;
}

}  // namespace tandem
