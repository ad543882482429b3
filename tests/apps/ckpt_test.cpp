// `tandem ckpt` as a user meets it: output and exit status of the program itself.
#include <gmock/gmock.h>

#include <utility>

#include "tests/train/checkpoint_content.h"
#include "train/json.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_content;
using testing::TempFolder;

struct Result {
  int status = -1;
  std::string output;
};

Result run_tandem(const std::string& words) {
  FILE* pipe = ::popen(fmt::format("'{}' {} 2>&1", TANDEM_PROGRAM, words).c_str(), "r");
  Result result;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) result.output += buffer.data();
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

class CkptCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(TANDEM_PROGRAM)) << TANDEM_PROGRAM << " is not built";
    for (const char* name : {"a", "b"}) {
      fs::create_directory(folder_ / name);
      for (const std::int64_t step : {10, 20}) save_checkpoint(folder_ / name, sample_content(step));
    }
  }
  const TempFolder folder_;
  const fs::path newest_ = folder_ / "a/step-000000020.h5";
};

TEST_F(CkptCommand, LsListsNewestFirstWithPointers) {
  const Result result = run_tandem("ckpt ls " + quoted(folder_ / "a"));
  EXPECT_EQ(result.status, 0);
  const auto newer = result.output.find("step-000000020.h5"), older = result.output.find("step-000000010.h5");
  ASSERT_NE(older, std::string::npos) << result.output;
  EXPECT_LT(newer, older);
  EXPECT_THAT(result.output, HasSubstr("latest, best"));
  const auto json = parse_json_object(run_tandem("ckpt ls --json " + quoted(folder_ / "a")).output);
  ASSERT_TRUE(json.has_value());
  EXPECT_THAT(json->at("checkpoints"), HasSubstr(R"("file":"step-000000020.h5")"));
  EXPECT_EQ(run_tandem("ckpt ls " + quoted(folder_ / "none")).status, 4);
}

TEST_F(CkptCommand, ShowSaysWhatIsInIt) {
  const Result result = run_tandem("ckpt show " + quoted(folder_ / "a"));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("step         20 of 800, epoch 3"));
  EXPECT_THAT(result.output, HasSubstr("model/enc0.conv1.weight  F32 [2, 3, 2, 1, 2]"));
  EXPECT_EQ(run_tandem("ckpt show --config " + quoted(newest_)).output, "name: test\nseed: 1\n");
  const auto json = parse_json_object(run_tandem("ckpt show --json " + quoted(newest_)).output);
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->at("step"), "20");
  EXPECT_EQ(json->at("last_event"), "overflow");
}

TEST_F(CkptCommand, VerifyFindsADamagedByte) {
  EXPECT_EQ(run_tandem("ckpt verify " + quoted(newest_)).status, 0);
  EXPECT_THAT(run_tandem("ckpt verify " + quoted(folder_ / "a")).output, HasSubstr("2 intact, 0 damaged"));
  std::string bytes = testing::read_bytes(newest_);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  testing::write_bytes(newest_, bytes);
  const Result file = run_tandem("ckpt verify " + quoted(newest_)),
               all = run_tandem("ckpt verify " + quoted(folder_ / "a"));
  EXPECT_EQ(file.status, 4);
  EXPECT_THAT(file.output, HasSubstr("damaged: got digest"));
  EXPECT_EQ(all.status, 4);
  EXPECT_THAT(all.output, HasSubstr("1 intact, 1 damaged"));
}

TEST_F(CkptCommand, DiffComparesFilesAndFolders) {
  const std::string both = quoted(folder_ / "a") + " " + quoted(folder_ / "b");
  EXPECT_EQ(run_tandem("ckpt diff " + both).output, "identical\n");
  EXPECT_EQ(run_tandem("ckpt diff " + both).status, 0);
  CheckpointContent other = sample_content(20);
  other.tensors[0].tensor.data<float>()[0] += 1;
  save_checkpoint(folder_ / "b", other);
  const Result result = run_tandem("ckpt diff " + both);
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(
      result.output,
      HasSubstr("model/enc0.conv1.weight: 1 of 24 values differ by up to 1, first at [0, 0, 0, 0, 0]: 0.5, 1.5"));
  EXPECT_THAT(result.output, Not(HasSubstr("identical")));
  EXPECT_EQ(run_tandem("ckpt diff " + quoted(newest_) + " " + quoted(folder_ / "none")).status, 4);
}

}  // namespace
}  // namespace tandem
