// Files written whole or not at all, and read with a size limit. Every write of a run's state goes through
// here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace tandem {

// Error{kUsage} "[command] option: got PATH, which exists, ..." if it does; not to be called with
// --overwrite.
void expect_new_file(std::string_view command, std::string_view option, const std::filesystem::path& path);

// Writes `path` atomically: temporary file in the same folder, fsync, rename, fsync of the folder. An
// existing file is replaced only by a complete one. With `verify` the temporary file is read back and
// compared before the rename. Throws Error{kResource} with the system's reason; the temporary file is removed
// then.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           bool verify = false);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
// The same for content in pieces, written one after the other.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> pieces, bool verify = false);

// Removes a file; one that is missing is no error. Throws Error{kResource}.
void remove_file(const std::filesystem::path& path);

// Entries of `folder`, sorted; Error{kind} "[where] PATH: got a folder that cannot be listed: REASON".
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, ErrorKind kind,
                                               std::string_view where);

// Whole content of `path`; Error{kUsage} if missing, unreadable or longer than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

// Throws Error{kData} "[where] PATH: got no such file, expected EXPECTED" unless `path` is a regular file,
// and Error{kResource} if this user may not read it.
void expect_readable(const std::filesystem::path& path, std::string_view where, std::string_view expected);

// Bytes free for this user on the file system of `folder`.
std::int64_t free_disk_bytes(const std::filesystem::path& folder);

// An exclusive advisory lock (flock) held until destruction or death of the process.
class FileLock {
 public:
  // Throws Error{kUsage} naming the holder's pid if another process holds `path`, Error{kResource} if the
  // file system has no locks.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  [[noreturn]] void fail_locked(const std::filesystem::path& path, int error);
  void close();

  int descriptor_ = -1;
};

}  // namespace tandem
