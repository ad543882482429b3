// The system calls behind every write of a run's state, one virtual function each, so that a test can make
// any of them fail, end the process, or be recorded. What is written, and in which order, is files.h's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace tandem {

// Each returns what the call of its name returns, and sets errno. This class makes the calls.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t write(int descriptor, const void* bytes, std::size_t size);
  virtual ssize_t read(int descriptor, void* bytes, std::size_t size);
  virtual int fsync(int descriptor);
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int flock(int descriptor, int operation);
};

// Ends the process without warning (status 137) in place of the n-th call that changes a file, n >= 1.
class CrashingFileCalls final : public FileCalls {
 public:
  explicit CrashingFileCalls(std::int64_t n) : left_(n) {}
  int open(const char* path, int flags, mode_t mode) override;
  ssize_t write(int descriptor, const void* bytes, std::size_t size) override;
  int fsync(int descriptor) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;

 private:
  void count();
  std::int64_t left_;
};

// The calls in use: the system's, or with TANDEM_CRASH_AT=N in the environment those that crash at the N-th.
FileCalls& file_calls();

// For tests: other calls for as long as the object lives. Not to be changed while another thread writes.
class ReplacedFileCalls {
 public:
  explicit ReplacedFileCalls(FileCalls& calls);
  ~ReplacedFileCalls();
  ReplacedFileCalls(const ReplacedFileCalls&) = delete;
  ReplacedFileCalls& operator=(const ReplacedFileCalls&) = delete;

 private:
  FileCalls* previous_;
};

}  // namespace tandem
