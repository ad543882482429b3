// The calls as the system makes them, and their replacement in tests.
#include "core/base/file_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tandem {
namespace {

FileCalls* initial_calls() {
  static FileCalls system;
  const char* text = std::getenv("TANDEM_CRASH_AT");
  const std::int64_t n = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  if (n <= 0) return &system;
  static CrashingFileCalls crashing(n);
  return &crashing;
}

FileCalls*& current_calls() {
  static FileCalls* calls = initial_calls();
  return calls;
}

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileCalls::write(int descriptor, const void* bytes, std::size_t size) {
  return ::write(descriptor, bytes, size);
}
ssize_t FileCalls::read(int descriptor, void* bytes, std::size_t size) {
  return ::read(descriptor, bytes, size);
}
int FileCalls::fsync(int descriptor) { return ::fsync(descriptor); }
int FileCalls::close(int descriptor) { return ::close(descriptor); }
int FileCalls::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileCalls::unlink(const char* path) { return ::unlink(path); }
int FileCalls::flock(int descriptor, int operation) { return ::flock(descriptor, operation); }

void CrashingFileCalls::count() {
  if (--left_ == 0) _exit(137);
}
int CrashingFileCalls::open(const char* path, int flags, mode_t mode) {
  if (flags & O_CREAT) count();
  return FileCalls::open(path, flags, mode);
}
ssize_t CrashingFileCalls::write(int descriptor, const void* bytes, std::size_t size) {
  count();
  return FileCalls::write(descriptor, bytes, size);
}
int CrashingFileCalls::fsync(int descriptor) {
  count();
  return FileCalls::fsync(descriptor);
}
int CrashingFileCalls::rename(const char* from, const char* to) {
  count();
  return FileCalls::rename(from, to);
}
int CrashingFileCalls::unlink(const char* path) {
  count();
  return FileCalls::unlink(path);
}

FileCalls& file_calls() { return *current_calls(); }

ReplacedFileCalls::ReplacedFileCalls(FileCalls& calls) : previous_(current_calls()) {
  current_calls() = &calls;
}
ReplacedFileCalls::~ReplacedFileCalls() { current_calls() = previous_; }

}  // namespace tandem
