// A file that grows by whole records while a run goes on, and does not end the run when the disk is full:
// metrics, CSV, TensorBoard. Files that must be complete are core/base/files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

class AppendFile {
 public:
  // Opens `path` for appending, made if missing. Error{kResource} where that fails, or where a folder is in
  // its place.
  explicit AppendFile(std::filesystem::path path);
  // Tries once more to write what waits; says what is lost then.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Hands the record to the system at once. Where the system refuses (disk full, I/O error) the record waits
  // in memory and goes out, byte for byte behind what was written, with a later append(); a warning is logged
  // when that begins, a message when it ends. Beyond kMaxWaitingBytes further records are dropped, and
  // counted.
  void append(std::string_view record);
  // Everything appended is on the disk (fsync), or Error{kResource} says why not.
  void sync();

  static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

 private:
  bool flush();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string waiting_;
  int error_ = 0;  // of the last write; 0: none
  std::int64_t dropped_ = 0;
};

// Error{kResource} unless `path` is missing or a file: "got a folder, expected a file".
void expect_file_or_nothing(const std::filesystem::path& path);

}  // namespace tandem
