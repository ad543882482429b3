// The frame of the program: help, version, suggestions, exit codes, where text goes. Commands that train or
// read data have their own tests.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Result {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("tandem cli ") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs `tandem WORDS` (shell syntax) in the test's folder.
  Result run(const std::string& words) const {
    const fs::path out = folder_ / ".out", err = folder_ / ".err";
    const std::string command = "cd '" + folder_.string() + "' && '" TANDEM_PROGRAM "' " + words + " > '" +
                                out.string() + "' 2> '" + err.string() + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
  }
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  // Every command that the help lists, those of groups with the group's name: "train", "config check".
  std::vector<std::string> listed_commands() const {
    std::vector<std::string> all;
    for (const std::string& word : words_of_help(""))
      if (const std::vector<std::string> inner = words_of_help(word); inner.empty())
        all.push_back(word);
      else
        for (const std::string& command : inner) all.push_back(word + " " + command);
    return all;
  }
  // The words under "Commands:" of `tandem COMMAND --help`.
  std::vector<std::string> words_of_help(const std::string& command) const {
    std::string help = run(command + " --help").out;
    const std::size_t start = help.find("\nCommands:\n");
    if (start == std::string::npos) return {};
    help = help.substr(start, help.find("\n\n", start + 1) - start);
    std::vector<std::string> words;
    const std::regex line("\n  ([a-z]+) ");
    for (std::sregex_iterator it(help.begin(), help.end(), line), end; it != end; ++it)
      words.push_back((*it)[1]);
    return words;
  }

  fs::path folder_;
};

TEST_F(Cli, HelpListsTheCommandsAndTheExitCodes) {
  for (const char* words : {"--help", "-h"}) {
    const Result result = run(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.out.find("\n  config "), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("\n  doctor "), std::string::npos);
    EXPECT_NE(result.out.find("Exit codes: 0 done; 2 usage"), std::string::npos);
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Cli, EveryCommandHasHelpWithAnExample) {
  std::vector<std::string> commands = listed_commands();
  EXPECT_GE(commands.size(), 16U);
  for (const std::string& word : words_of_help(""))
    if (!words_of_help(word).empty()) commands.push_back(word);  // groups
  EXPECT_EQ(std::count(commands.begin(), commands.end(), "ckpt"), 1);
  for (const std::string& command : commands) {
    const Result result = run(command + " --help");
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_NE(result.out.find("Usage: tandem " + command), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("Example:\n  tandem " + command), std::string::npos) << result.out;
    EXPECT_EQ(run("help " + command).out, result.out);
  }
}

TEST_F(Cli, WrongWordsNameTheNearestAndExitWith2) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"versoin", "Did you mean 'version'?\n"},
      {"config shwo",
       "error: [tandem] unknown config command 'shwo': expected one of check, show, docs, schema. Did you "
       "mean "
       "'show'?\n"},
      {"config",
       "error: [tandem] 'config' needs one of check, show, docs, schema. See `tandem config --help`.\n"},
      {"config show x.yaml --orign",
       "error: [tandem] unknown flag '--orign': expected one of --help, --origin. Did you mean "
       "'--origin'?\n"},
      {"config show", "error: [tandem] FILE is required. See `tandem config show --help`.\n"},
      {"version extra", "error: [tandem] unexpected word 'extra'. See `tandem version --help`.\n"},
      {"--frobnicate",
       "error: [tandem] unknown flag '--frobnicate': expected one of --help. See `tandem --help`.\n"},
  };
  for (const auto& [words, message] : cases) {
    const Result result = run(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_TRUE(result.err.ends_with(message)) << words << ": " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Cli, NoWordsPrintTheHelpToStderr) {
  const Result result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("Usage: tandem"), std::string::npos);
}

TEST_F(Cli, VersionAndDoctorAsTextAndJson) {
  EXPECT_TRUE(run("version").out.starts_with("tandem 0.")) << run("version").out;
  EXPECT_EQ(run("--version").out, run("version").out);
  const auto version = nlohmann::json::parse(run("version --json").out);
  EXPECT_TRUE(version.at("libraries").contains("oneDNN"));
  const auto doctor = nlohmann::json::parse(run("doctor --json").out);
  EXPECT_TRUE(doctor.at("cuda").at("usable").get<bool>() || doctor.at("device") == "cpu");
  EXPECT_GE(doctor.at("threads").at("usable_cores").get<int>(), 1);
  EXPECT_GT(doctor.at("memory").at("total_bytes").get<std::int64_t>(), 1 << 20);
  EXPECT_NE(run("doctor").out.find("\ndevice   "), std::string::npos);
  EXPECT_EQ(run("doctor --json").code, 0);
}

TEST_F(Cli, AWrongIsaNameIsAUsageError) {
  const std::string command =
      "cd '" + folder_.string() + "' && TANDEM_ISA=avx9 '" TANDEM_PROGRAM "' doctor 2>&1 >/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system((command + " | grep -q avx9").c_str())), 0);
  EXPECT_EQ(WEXITSTATUS(std::system((command + " 2>/dev/null").c_str())), 2);
}

TEST_F(Cli, ConfigCheckPrintsEveryErrorWithItsPlace) {
  write("bad.yaml",
        "optimizer:\n  learing_rate: 1e-3\n  lr: -1\ntrain: {iterations: 1}\ndata: {train: [a.h5]}\n");
  const Result result = run("config check bad.yaml train.batch_size=0");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("error: unknown key 'optimizer.learing_rate'\n  --> bad.yaml:2:3     "))
      << result.err;
  EXPECT_NE(result.err.find("\nerror: 'optimizer.lr': got '-1', expected a number "), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("\n  --> bad.yaml:3:7\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("\n  --> command line: train.batch_size=0\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("\nerror: 'data.labels': got no classes"), std::string::npos) << result.err;
  EXPECT_TRUE(result.err.ends_with("\n4 errors, nothing was run\n")) << result.err;
}

TEST_F(Cli, ConfigShowOfItsOwnOutputIsTheSame) {
  const Result shown = run("config show '" TANDEM_SOURCE_DIR "/configs/unet3d_ct.yaml' optimizer.lr=1e-3");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\n  lr: 0.001\n"), std::string::npos) << shown.out;
  write("resolved.yaml", shown.out);
  EXPECT_EQ(run("config check resolved.yaml").out, "resolved.yaml: no errors, 1 warning\n")
      << "predict.mirror_tta is true by default, and augment.mirror has no axes";
  EXPECT_EQ(run("config show resolved.yaml").out, shown.out);

  const Result origins = run("config show resolved.yaml train.batch_size=4 --origin");
  EXPECT_NE(origins.out.find("\n  batch_size: 4  # command line\n"), std::string::npos) << origins.out;
  EXPECT_NE(origins.out.find("name: unet3d_ct  # resolved.yaml:1\n"), std::string::npos) << origins.out;
}

TEST_F(Cli, AMissingFileIsNamed) {
  const Result result = run("config check none.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: [file] none.yaml: no such file.\n");
}

TEST_F(Cli, AFullDiskUnderStdoutIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string command =
      "'" TANDEM_PROGRAM "' version > /dev/full 2> '" + (folder_ / "err").string() + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 6);
  EXPECT_EQ(read(folder_ / "err"),
            "error: [output] the standard output cannot be written. Is its disk full?\n");
}

TEST_F(Cli, TheTableOfTheDocsIsCurrent) {
  const std::string docs = read(TANDEM_SOURCE_DIR "/docs/config.md");
  ASSERT_FALSE(docs.empty()) << "docs/config.md is not there";
  const Result result = run("config docs");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(docs.find(result.out), std::string::npos)
      << "run: tandem config docs, and put its table into docs/config.md";
}

}  // namespace
}  // namespace tandem
