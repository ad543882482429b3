// The order of system calls behind files.h; the calls themselves are core/base/file_calls.
#include "core/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "core/base/file_calls.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Makes the call again for as long as a signal interrupts it.
template <class Call>
auto retrying(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void fail_io(const fs::path& path, std::string_view what, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT)
    hint = "Free some disk space; what was complete before is untouched.";
  if (error == EFBIG)
    hint = "Raise the limit on file sizes (ulimit -f); what was complete before is untouched.";
  if (error == EACCES || error == EPERM || error == EROFS) hint = "Choose a folder that you may write to.";
  throw Error(ErrorKind::kResource,
              fmt::format("[file] {}: {} failed: {}", path.string(), what, std::strerror(error)), hint);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) file_calls().close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_file(const fs::path& path, int flags, mode_t mode = 0) {
  return retrying([&] { return file_calls().open(path.c_str(), flags, mode); });
}

void write_all(int fd, const fs::path& path, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  constexpr std::size_t kChunk = std::size_t{8} << 20;
  while (done < bytes.size()) {
    const std::size_t size = std::min(kChunk, bytes.size() - done);
    const ssize_t n = retrying([&] { return file_calls().write(fd, bytes.data() + done, size); });
    if (n <= 0) fail_io(path, "write", n == 0 ? ENOSPC : errno);
    done += static_cast<std::size_t>(n);
  }
}

// Reads exactly `expected` from the file's current position and compares.
void verify_piece(int fd, const fs::path& path, std::span<const std::byte> expected) {
  std::vector<std::byte> buffer(std::min(expected.size(), std::size_t{1} << 20));
  std::size_t done = 0;
  while (done < expected.size()) {
    const std::size_t size = std::min(buffer.size(), expected.size() - done);
    const ssize_t n = retrying([&] { return file_calls().read(fd, buffer.data(), size); });
    if (n < 0) fail_io(path, "read for verification", errno);
    if (n == 0 || std::memcmp(buffer.data(), expected.data() + done, static_cast<std::size_t>(n)) != 0)
      fail(ErrorKind::kResource, "[file] {}: the bytes read back differ from those written", path.string());
    done += static_cast<std::size_t>(n);
  }
}

void verify_content(const fs::path& path, std::span<const std::span<const std::byte>> pieces) {
  const Descriptor fd(open_file(path, O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail_io(path, "open for verification", errno);
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    verify_piece(fd.get(), path, piece);
    size += piece.size();
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_io(path, "stat for verification", errno);
  if (static_cast<std::size_t>(info.st_size) != size)
    fail(ErrorKind::kResource, "[file] {}: {} bytes on disk, {} written", path.string(), info.st_size, size);
}

void sync_folder(const fs::path& folder) {
  const Descriptor fd(open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) fail_io(folder, "open of the folder", errno);
  if (retrying([&] { return file_calls().fsync(fd.get()); }) != 0 && errno != EINVAL)
    fail_io(folder, "fsync of the folder", errno);
}

void write_and_rename(const fs::path& path, const fs::path& temporary,
                      std::span<const std::span<const std::byte>> pieces, bool verify) {
  {
    const Descriptor fd(open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd.get() < 0) fail_io(temporary, "create", errno);
    for (const auto& piece : pieces) write_all(fd.get(), temporary, piece);
    // Never again on the same descriptor: after an error the system may have dropped what was not written.
    if (retrying([&] { return file_calls().fsync(fd.get()); }) != 0) fail_io(temporary, "fsync", errno);
  }
  if (verify) verify_content(temporary, pieces);
  if (retrying([&] { return file_calls().rename(temporary.c_str(), path.c_str()); }) != 0)
    fail_io(path, "rename", errno);
}

}  // namespace

void expect_new_file(std::string_view command, std::string_view option, const fs::path& path) {
  if (!fs::exists(path)) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("[{}] {}: got {}, which exists, expected a new file", command, option, path.string()),
      "Choose another name, or pass --overwrite.");
}

void write_file_atomically(const fs::path& path, std::span<const std::span<const std::byte>> pieces,
                           bool verify) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = folder / fmt::format(".tmp-{}-{}", ::getpid(), path.filename().string());
  try {
    write_and_rename(path, temporary, pieces, verify);
  } catch (...) {
    retrying([&] { return file_calls().unlink(temporary.c_str()); });
    throw;
  }
  sync_folder(folder);
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes, bool verify) {
  write_file_atomically(path, std::span<const std::span<const std::byte>>(&bytes, 1), verify);
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void remove_file(const fs::path& path) {
  if (retrying([&] { return file_calls().unlink(path.c_str()); }) != 0 && errno != ENOENT)
    fail_io(path, "remove", errno);
}

std::vector<fs::path> list_folder(const fs::path& folder, ErrorKind kind, std::string_view where) {
  // Not std::filesystem's iterators: libstdc++'s end the process where an allocation inside them fails.
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
  errno = stream ? 0 : errno;
  std::vector<fs::path> paths;
  while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") paths.push_back(folder / name);
    errno = 0;
  }
  if (errno != 0)
    fail(kind, "[{}] {}: got a folder that cannot be listed: {}", where, folder.string(),
         std::strerror(errno));
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read_text_file(const fs::path& path, std::int64_t max_bytes) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) fail(ErrorKind::kUsage, "[file] {}: no such file", path.string());
  if (fs::is_directory(status))
    fail(ErrorKind::kUsage, "[file] {}: is a folder, expected a file", path.string());
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    fail(ErrorKind::kResource, "[file] {}: cannot be opened: {}", path.string(), std::strerror(errno));
  std::string text;
  std::string buffer(65536, '\0');
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (static_cast<std::int64_t>(text.size()) > max_bytes)
      fail(ErrorKind::kUsage, "[file] {}: longer than {} bytes", path.string(), max_bytes);
  }
  return text;
}

void expect_readable(const fs::path& path, std::string_view where, std::string_view expected) {
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);
  const bool forbidden = error == std::errc::permission_denied;
  if (!regular && !forbidden)
    fail(ErrorKind::kData, "[{}] {}: got no such file, expected {}", where, path.string(), expected);
  if (forbidden || ::access(path.c_str(), R_OK) != 0)
    throw Error(ErrorKind::kResource,
                fmt::format("[{}] {}: cannot be opened: {}", where, path.string(), std::strerror(EACCES)),
                "Ask its owner for the right to read it.");
}

std::int64_t free_disk_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) fail_io(folder, "statvfs", errno);
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

FileLock::FileLock(const fs::path& path) {
  descriptor_ = open_file(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_io(path, "open", errno);
  if (retrying([&] { return file_calls().flock(descriptor_, LOCK_EX | LOCK_NB); }) != 0)
    fail_locked(path, errno);
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, pid.data(), pid.size(), 0) < 0) {
    const int error = errno;
    close();
    fail_io(path, "write of the pid", error);
  }
}

void FileLock::fail_locked(const fs::path& path, int error) {
  char holder[32] = {};
  const ssize_t n = ::read(descriptor_, holder, sizeof(holder) - 1);
  close();
  if (error != EWOULDBLOCK)
    throw Error(ErrorKind::kResource,
                fmt::format("[run] {}: got no lock on this file system: {}, expected one that locks files",
                            path.string(), std::strerror(error)),
                "Choose a --run-dir on another file system.");
  throw Error(
      ErrorKind::kUsage,
      fmt::format("[run] {}: another process ({}) is using this run folder", path.parent_path().string(),
                  n > 0 ? std::string("pid ") + holder : std::string("pid unknown")),
      "Wait for it, or choose another --run-dir.");
}

void FileLock::close() {
  if (descriptor_ >= 0) file_calls().close(descriptor_);
  descriptor_ = -1;
}

FileLock::~FileLock() { close(); }

}  // namespace tandem
