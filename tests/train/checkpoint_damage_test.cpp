// Whatever happens to a checkpoint file, an intact one is found and nothing wrong is believed; a disk that is
// full says so. What happens while one is written is in checkpoint_faults_test.cpp.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "tests/train/checkpoint_content.h"
#include "train/checkpoint.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::counting;
using testing::error_of;
using ::testing::HasSubstr;
using testing::sample_content;
using testing::status_in_child;
using testing::TempFolder;

// A folder with intact steps 1 and 2; the newer one is damaged by the tests.
class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() {
    for (const std::int64_t step : {1, 2}) save_checkpoint(folder_.path(), sample_content(step));
    bytes_ = testing::read_bytes(newer_);
  }

  // The damaged file is rejected by name and step 1 is found.
  void expect_fallback(const std::string& what) {
    const NewestCheckpoint newest = newest_intact(folder_.path());
    ASSERT_TRUE(newest.found.has_value()) << what;
    ASSERT_EQ(newest.found->step, 1) << what;
    ASSERT_EQ(newest.rejected.size(), 1u) << what;
    ASSERT_EQ(newest.rejected[0].path, newer_) << what;
    ASSERT_NE(newest.rejected[0].problem, "") << what;
  }

  const TempFolder folder_;
  const fs::path newer_ = folder_ / "step-000000002.h5";
  std::string bytes_;
};

TEST_F(DamagedCheckpoint, EveryBitOfTheHeaderAndTwoThousandAnywhere) {
  std::vector<std::size_t> bits(
      8 * 64);  // all that means something there; the rest is zero and like any other byte
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i;
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 2000; ++i) bits.push_back(random() % (8 * bytes_.size()));
  for (const std::size_t bit : bits) {
    std::string flipped = bytes_;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    testing::write_bytes(newer_, flipped);
    expect_fallback("bit " + std::to_string(bit));
    if (HasFatalFailure()) return;
  }
}

TEST_F(DamagedCheckpoint, EveryTruncation) {
  for (std::size_t size = bytes_.size(); size-- > 0;) {
    fs::resize_file(newer_, size);
    expect_fallback("size " + std::to_string(size));
    if (HasFatalFailure()) return;
  }
}

TEST_F(DamagedCheckpoint, TrailingBytes) {
  testing::write_bytes(newer_, bytes_ + '\0');
  expect_fallback("one byte more");
}

TEST_F(DamagedCheckpoint, AStepThatDisagreesWithTheContentIsSeenUnderAnyName) {
  std::string other = bytes_;
  other[40] = 3;
  const fs::path renamed = folder_ / "renamed.h5";
  testing::write_bytes(renamed, other);
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint(renamed); }),
              HasSubstr("got step 3, expected 2"));
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { load_checkpoint(renamed); }),
              HasSubstr("got step 3, expected 2"));
  testing::write_bytes(renamed, bytes_);
  EXPECT_EQ(verify_checkpoint(renamed), 2);
}

TEST_F(DamagedCheckpoint, ReasonsAreNamed) {
  const auto problem = [this](std::size_t at, char value) {
    std::string changed = bytes_;
    changed[at] = value;
    testing::write_bytes(newer_, changed);
    return error_of(ErrorKind::kCheckpoint, [this] { load_checkpoint(newer_); });
  };
  EXPECT_THAT(problem(0, 'X'), HasSubstr("not a checkpoint"));
  EXPECT_THAT(problem(8, 2), HasSubstr("format version: got 2, expected 1. Use the newer release"));
  EXPECT_THAT(problem(60, 1), HasSubstr("reserved"));
  EXPECT_THAT(problem(16, static_cast<char>(bytes_[16] + 1)), HasSubstr("torn"));
  EXPECT_THAT(problem(900, static_cast<char>(bytes_[900] + 1)), HasSubstr("damaged: got digest"));
}

// The digest fits but the content does not: what a hostile or foreign writer makes.
TEST_F(DamagedCheckpoint, ContentThatIsNoCheckpointIsRefused) {
  const std::string junk(3000, 'j');
  const std::span<const std::byte> payload = std::as_bytes(std::span(junk.data(), junk.size()));
  const auto header =
      encode_header({.payload_bytes = payload.size(), .digest = payload_digest(payload), .step = 2});
  testing::write_bytes(newer_,
                       std::string(reinterpret_cast<const char*>(header.data()), header.size()) + junk);
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [this] { load_checkpoint(newer_); }),
              HasSubstr("no intact HDF5 file"));
  expect_fallback("junk with a good digest");
}

CheckpointContent large_content(std::int64_t step) {
  CheckpointContent content = sample_content(step);
  content.tensors.push_back({"model/large", counting({150, 1000}, DType::kF32)});  // 600 kB
  return content;
}

TEST(DiskFull, FileSizeLimitLeavesTheOldOneAndSaysSo) {
  const TempFolder folder;
  const auto size = fs::file_size(save_checkpoint(folder.path(), large_content(1)));
  for (std::uintmax_t part = 0; part < 12; ++part) {
    const fs::path said = folder / "said";
    const int status = status_in_child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{size * part / 12, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        save_checkpoint(folder.path(), large_content(2), {.keep_last = 1});
      } catch (const Error& error) {
        const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
        ::setrlimit(RLIMIT_FSIZE, &none);
        testing::write_bytes(said, error.what());
        return exit_code(error.kind());
      }
      return 0;
    });
    EXPECT_EQ(status, 6) << part;
    EXPECT_THAT(testing::read_bytes(said), HasSubstr("Last good checkpoint: step 1."));
    const NewestCheckpoint newest = newest_intact(folder.path());
    EXPECT_EQ(newest.found->step, 1);
    EXPECT_TRUE(newest.rejected.empty());
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
}

// A file system of `kilobytes`, as long as the object lives; ok() is false where that is not allowed.
class SmallDisk {
 public:
  explicit SmallDisk(int kilobytes) {
    const std::string options = fmt::format("size={}k", kilobytes);
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(folder_.path().c_str());
  }
  bool ok() const { return mounted_; }
  const fs::path& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
  bool mounted_ = false;
};

TEST(DiskFull, SmallFileSystemLeavesTheOldOne) {
  for (const int kilobytes : {640, 700, 800, 900, 1000, 1200}) {
    const SmallDisk disk(kilobytes);
    if (!disk.ok()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
    save_checkpoint(disk.path(), large_content(1), {.check_space = false});
    const std::string text = error_of(ErrorKind::kResource, [&] {
      save_checkpoint(disk.path(), large_content(2), {.keep_last = 1, .check_space = false});
    });
    EXPECT_THAT(text, HasSubstr("No space left on device"));
    EXPECT_THAT(text, HasSubstr("Last good checkpoint: step 1."));
    EXPECT_EQ(newest_intact(disk.path()).found->step, 1);
    EXPECT_FALSE(
        diff_checkpoints(load_checkpoint(disk.path() / "step-000000001.h5"), large_content(1)).has_value());
  }
}

TEST(DiskFull, SpaceIsAskedForFirst) {
  const SmallDisk disk(1000);
  if (!disk.ok()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
  const std::string text =
      error_of(ErrorKind::kResource, [&] { save_checkpoint(disk.path(), large_content(1)); });
  EXPECT_THAT(text, HasSubstr("disk full on " + disk.path().string() + ": got 1 MB free, expected 65 MB"));
  EXPECT_THAT(text, HasSubstr("There is no earlier checkpoint."));
  EXPECT_TRUE(fs::is_empty(disk.path()));
}

TEST(ReadOnlyFolder, SavingIsAResourceError) {
  const TempFolder folder;
  save_checkpoint(folder.path(), sample_content(1));
  fs::permissions(folder.path(), fs::perms{0555});
  const fs::path said = fs::temp_directory_path() / fmt::format("tandem-said-{}", ::getpid());
  const int status = status_in_child([&] {
    if (::getuid() == 0 && ::setuid(65534) != 0) return 98;  // root may write anywhere
    try {
      save_checkpoint(folder.path(), sample_content(2));
    } catch (const Error& error) {
      testing::write_bytes(said, error.what());
      return exit_code(error.kind());
    }
    return 0;
  });
  fs::permissions(folder.path(), fs::perms{0755});
  const std::string text = testing::read_bytes(said);
  fs::remove(said);
  if (status == 98) GTEST_SKIP() << "the user id cannot be changed here";
  EXPECT_EQ(status, 6);
  EXPECT_THAT(text, HasSubstr("Permission denied"));
  EXPECT_THAT(text, HasSubstr("Choose a folder that you may write to."));
  EXPECT_EQ(newest_intact(folder.path()).found->step, 1);
}

TEST(MissingFolder, SavingIsAResourceError) {
  const TempFolder folder;
  EXPECT_THAT(error_of(ErrorKind::kResource, [&] { save_checkpoint(folder / "none", sample_content(1)); }),
              HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace tandem
