// A disk that is full for a while: nothing is lost, nothing is torn, the run goes on.
#include "train/append_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "core/base/error.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::read_bytes;
using testing::TempFolder;

// While it lives, no file of this process may grow beyond `bytes`: write(2) fails with EFBIG there.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    previous_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, previous_);
  }

 private:
  rlimit before_{};
  void (*previous_)(int);
};

TEST(AppendFile, WhatCouldNotBeWrittenFollowsLaterWithoutATear) {
  const TempFolder folder;
  AppendFile file(folder / "f");
  file.append("first\n");
  {
    const FileSizeLimit limit(10);
    file.append("second\n");  // 4 bytes of it fit
    EXPECT_EQ(read_bytes(folder / "f"), "first\nseco");
    file.append("third\n");
    EXPECT_THAT(testing::error_of(ErrorKind::kResource, [&] { file.sync(); }), HasSubstr("File too large"));
  }
  file.append("fourth\n");
  EXPECT_EQ(read_bytes(folder / "f"), "first\nsecond\nthird\nfourth\n");
  file.sync();
}

TEST(AppendFile, TheEndTriesOnceMore) {
  const TempFolder folder;
  {
    AppendFile file(folder / "f");
    const FileSizeLimit limit(0);
    file.append("x\n");
    EXPECT_EQ(read_bytes(folder / "f"), "");
    // The limit ends first, then the file.
  }
  EXPECT_EQ(read_bytes(folder / "f"), "x\n");
}

TEST(AppendFile, AFullDeviceEndsNothingButTheSync) {
  AppendFile file("/dev/full");
  file.append("a line\n");
  EXPECT_THAT(testing::error_of(ErrorKind::kResource, [&] { file.sync(); }),
              HasSubstr("/dev/full: write failed: No space left on device. Free some disk space."));
}

TEST(AppendFile, WholeRecordsAreDroppedWhenTooMuchWaits) {
  const TempFolder folder;
  const std::string record(1 << 20, 'x');
  {
    AppendFile file(folder / "f");
    {
      const FileSizeLimit limit(0);
      for (int i = 0; i < 20; ++i) file.append(record);
    }
    file.append("end");
  }
  EXPECT_EQ(std::filesystem::file_size(folder / "f"), AppendFile::kMaxWaitingBytes + 3);
}

}  // namespace
}  // namespace tandem
