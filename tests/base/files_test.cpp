// Atomic writes, limits on reads, locks. What a kill between two system calls leaves behind is tested with
// the checkpoints (tests/train).
#include "core/base/files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/file_calls.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem files XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static Error error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::kInternal, "no error");
  }

  fs::path folder_;
};

TEST_F(Files, WritesAndReplaces) {
  write_file_atomically(path("a.txt"), "first");
  EXPECT_EQ(read_text_file(path("a.txt"), 100), "first");
  write_file_atomically(path("a.txt"), "");
  EXPECT_EQ(read_text_file(path("a.txt"), 100), "");
  EXPECT_EQ(entries(), 1u) << "a temporary file was left";
}

TEST_F(Files, WritesPiecesAndVerifies) {
  const std::string a(100000, 'a'), b = "b";
  const std::array<std::span<const std::byte>, 2> pieces{std::as_bytes(std::span(a)),
                                                         std::as_bytes(std::span(b))};
  write_file_atomically(path("pieces"), pieces, true);
  EXPECT_EQ(read_text_file(path("pieces"), 1 << 20), a + b);
}

TEST_F(Files, FailureLeavesTheOldFileAndNoOther) {
  write_file_atomically(path("old"), "kept");
  const Error error = error_of([&] { write_file_atomically(path("missing/new"), "x"); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_NE(error.text().find("missing"), std::string::npos) << error.text();
  fs::create_directory(path("folder"));
  EXPECT_EQ(error_of([&] { write_file_atomically(path("folder"), "x"); }).kind(), ErrorKind::kResource);
  EXPECT_EQ(entries(), 2u);
  EXPECT_EQ(read_text_file(path("old"), 100), "kept");
}

TEST_F(Files, ReadErrors) {
  write_file_atomically(path("long"), "12345");
  EXPECT_EQ(read_text_file(path("long"), 5), "12345");
  EXPECT_EQ(error_of([&] { read_text_file(path("long"), 4); }).text(),
            "[file] " + path("long").string() + ": longer than 4 bytes");
  EXPECT_EQ(error_of([&] { read_text_file(path("none"), 4); }).text(),
            "[file] " + path("none").string() + ": no such file");
  EXPECT_EQ(error_of([&] { read_text_file(folder_, 4); }).text(),
            "[file] " + folder_.string() + ": is a folder, expected a file");
  EXPECT_THROW(read_text_file("/dev/zero", 1000), Error) << "an endless file";
}

TEST_F(Files, RemoveIgnoresMissing) {
  write_file_atomically(path("a"), "x");
  remove_file(path("a"));
  remove_file(path("a"));
  EXPECT_EQ(entries(), 0u);
}

TEST_F(Files, CrashPointEndsTheProcess) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CrashingFileCalls calls(1);
    const ReplacedFileCalls replaced(calls);
    write_file_atomically(path("a"), "x");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 137);
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(Files, LockNamesItsHolder) {
  {
    const FileLock lock(path("lock"));
    const Error error = error_of([&] { FileLock second(path("lock")); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.text().find("pid " + std::to_string(::getpid())), std::string::npos) << error.text();
  }
  const FileLock again(path("lock"));
}

// NFS without a lock service.
TEST_F(Files, AFileSystemWithoutLocksIsNamed) {
  class NoLocks final : public FileCalls {
    int flock(int, int) override {
      errno = ENOLCK;
      return -1;
    }
  } calls;
  const ReplacedFileCalls replaced(calls);
  const Error error = error_of([&] { FileLock lock(path("lock")); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_NE(error.text().find("got no lock on this file system: No locks available"), std::string::npos)
      << error.text();
}

TEST_F(Files, FreeDiskBytes) {
  EXPECT_GT(free_disk_bytes(folder_), 0);
  EXPECT_THROW(free_disk_bytes(path("none")), Error);
}

}  // namespace
}  // namespace tandem
