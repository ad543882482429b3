// write(2) with a queue behind it.
#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(const fs::path& path, std::string_view what, int error) {
  throw Error(ErrorKind::kResource,
              fmt::format("[metrics] {}: {} failed: {}", path.string(), what, std::strerror(error)),
              error == ENOSPC || error == EDQUOT ? "Free some disk space." : "");
}

}  // namespace

void expect_file_or_nothing(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::is_directory(status)) return;
  throw Error(ErrorKind::kResource,
              fmt::format("[metrics] {}: got a folder, expected a file or nothing", path.string()),
              "Move it out of the run folder.");
}

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
  expect_file_or_nothing(path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_io(path_, "open", errno);
}

AppendFile::~AppendFile() {
  if (!flush())
    log_warning("[metrics] {}: the last {} could not be written: {}", path_.string(),
                counted(waiting_.size(), "byte"), std::strerror(error_));
  ::close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  const int before = error_;
  flush();
  if (waiting_.size() + record.size() > kMaxWaitingBytes)
    ++dropped_;
  else
    waiting_ += record;
  if (!flush()) {
    if (before == 0)
      log_warning(
          "[metrics] {}: write failed: {}. Training goes on; the lines wait in memory until it works again.",
          path_.string(), std::strerror(error_));
  } else if (before != 0) {
    log_info("[metrics] {}: can be written again, {}", path_.string(),
             dropped_ == 0 ? "nothing is missing" : fmt::format("{} records are missing", dropped_));
  }
}

// Writes what waits; false, with error_ set, if some of it is left.
bool AppendFile::flush() {
  std::size_t done = 0;
  error_ = 0;
  while (done < waiting_.size() && error_ == 0) {
    const ssize_t n = ::write(descriptor_, waiting_.data() + done, waiting_.size() - done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0)
      error_ = ENOSPC;
    else if (errno != EINTR)
      error_ = errno;
  }
  waiting_.erase(0, done);
  return error_ == 0;
}

void AppendFile::sync() {
  if (!flush()) fail_io(path_, "write", error_);
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_io(path_, "fsync", errno);
}

}  // namespace tandem
