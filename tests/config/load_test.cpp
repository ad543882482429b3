// Overrides, inherit and paths.
#include "core/config/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/config/sample_options.h"

namespace tandem::config_test {
namespace {

namespace fs = std::filesystem;

class Load : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("tandem config ") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "sub");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  // The message with this test's folder left out.
  std::string error_of(const fs::path& path, const std::vector<std::string>& overrides = {}) {
    std::string text = error_text([&] {
      Job job;
      parse_options(load_config(path, overrides), fields(job));
    });
    const std::string prefix = folder_.string() + "/";
    for (std::size_t i = 0; (i = text.find(prefix)) != std::string::npos;) text.erase(i, prefix.size());
    return text;
  }
  Job job_of(const fs::path& path, const std::vector<std::string>& overrides = {}) {
    Job job;
    parse_options(load_config(path, overrides), fields(job));
    return job;
  }

  fs::path folder_;
};

TEST_F(Load, OverridesSetScalarsListsAndMaps) {
  const fs::path file =
      write("job.yaml", "optimizer: {lr: 0.1, momentum: 0.5}\nmodel: {features: [1, 2, 3]}\n");
  const Job job = job_of(file, {"optimizer.lr=1e-3", "model.features=[8,16]", "ema={decay: 0.25}", "seed=7",
                                "train.clip_norm=null", "optimizer.lr=2e-3", "name=two words"});
  EXPECT_EQ(job.optimizer.lr, 2e-3);  // the later one wins
  EXPECT_EQ(job.optimizer.momentum, 0.5);
  EXPECT_EQ(job.model.features, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(job.ema->decay, 0.25);
  EXPECT_EQ(job.seed, 7u);
  EXPECT_EQ(job.name, "two words");
  EXPECT_EQ(job.train.clip_norm, std::nullopt);
}

TEST_F(Load, OverridesWithErrors) {
  const fs::path file = write("job.yaml", "optimizer: {lr: 0.1}\n");
  EXPECT_EQ(
      error_of(file, {"optimizer.lr=fast", "train.batchsize=2"}),
      "'optimizer.lr': got 'fast', expected a number > 0 and <= 10\n  --> command line: optimizer.lr=fast\n"
      "error: unknown key 'train.batchsize'\n  --> command line: train.batchsize=2     did you mean "
      "'batch_size'? Keys "
      "here: batch_size, iterations, clip_norm, every\n2 errors, nothing was run\n");
  EXPECT_EQ(error_of(file, {"lr"}),
            "an override: got 'lr', expected key=value\n  --> command line: lr     for example "
            "optimizer.lr=1e-3\n");
  EXPECT_EQ(error_of(file, {"=1"}),
            "an override: got '=1', expected key=value\n  --> command line: =1     for example "
            "optimizer.lr=1e-3\n");
  EXPECT_EQ(
      error_of(file, {"seed="}),
      "'seed': got no value after '=', expected one\n  --> command line: seed=     seed=null unsets it\n");
  EXPECT_EQ(error_of(file, {"inherit=b.yaml"}),
            "an override: got 'inherit', expected a key of the job\n  --> command line: inherit=b.yaml     "
            "files are "
            "inherited by the list 'inherit' of a job file only\n");
  EXPECT_EQ(error_of(file, {"a..b=1"}),
            "an override: got the key 'a..b', expected names joined by '.'\n  --> command line: a..b=1\n");
  EXPECT_EQ(
      error_of(file, {"model.features=[1, 2"}),
      "a '[' is never closed by ']'\n  --> command line: model.features=[1, 2     or a ',' is missing\n");
  EXPECT_EQ(error_of(file, {"seed.x=1"}),
            "'seed': got a map {x}, expected an integer >= 0\n  --> command line: seed.x=1\n");
  EXPECT_NE(error_of(file, {std::string(1000, '.').insert(0, "a") + "=1"}), "no error");
  std::string deep = "a";
  for (int i = 0; i < 5000; ++i) deep += ".a";
  EXPECT_TRUE(error_of(file, {deep + "=1"}).starts_with("nested deeper than 64 levels\n"));
}

TEST_F(Load, AnOverriddenSelectorDropsKeysOfTheFile) {
  const fs::path file = write("job.yaml", "optimizer: {name: sgd, momentum: 0.5, lr: 0.1}\n");
  const Job job = job_of(file, {"optimizer.name=adamw"});
  EXPECT_EQ(job.optimizer.name, "adamw");
  EXPECT_EQ(job.optimizer.lr, 0.1);
  EXPECT_EQ(job.optimizer.momentum, 0.9);
  EXPECT_EQ(error_of(file, {"optimizer.name=adamw", "optimizer.momentum=0.5"}),
            "'optimizer.momentum' has no meaning with name: adamw\n  --> command line: "
            "optimizer.momentum=0.5     it belongs "
            "to name: sgd\n");
}

TEST_F(Load, InheritMergesMapsLeftToRight) {
  write("base.yaml",
        "name: base\noptimizer: {lr: 0.1, momentum: 0.5}\nmodel: {features: [1, 2, 3], tags: [a]}\n");
  write("sub/second.yaml", "inherit: ../base.yaml\nname: second\nseed: 2\noptimizer: {lr: 0.2}\n");
  write("third.yaml", "seed: 3\nmodel: {features: [9]}\n");
  const fs::path file =
      write("job.yaml", "inherit: [sub/second.yaml, third.yaml]\noptimizer: {nesterov: true}\n");
  const Job job = job_of(file);
  EXPECT_EQ(job.name, "second");
  EXPECT_EQ(job.seed, 3u);
  EXPECT_EQ(job.optimizer.lr, 0.2);
  EXPECT_EQ(job.optimizer.momentum, 0.5);
  EXPECT_TRUE(job.optimizer.nesterov);
  EXPECT_EQ(job.model.features, std::vector<std::int64_t>{9});
  EXPECT_EQ(job.model.tags, std::vector<std::string>{"a"});

  const ConfigNode tree = load_config(file);
  const ConfigEntry* lr = tree.find("optimizer")->value.find("lr");
  ASSERT_NE(lr, nullptr);
  EXPECT_EQ(lr->value.position().text(), (folder_ / "sub/second.yaml").string() + ":4:17");
  EXPECT_EQ(tree.find("inherit"), nullptr);
}

TEST_F(Load, AnInheritedSelectorMayBeChanged) {
  write("base.yaml", "optimizer: {name: sgd, momentum: 0.5}\n");
  EXPECT_EQ(job_of(write("job.yaml", "inherit: base.yaml\noptimizer: {name: adam}\n")).optimizer.name,
            "adam");
  EXPECT_EQ(error_of(write("job.yaml", "inherit: base.yaml\noptimizer: {beta1: 0.5}\n")),
            "'optimizer.beta1' has no meaning with name: sgd\n  --> job.yaml:2:13     it belongs to name: "
            "adam, adamw\n");
}

TEST_F(Load, InheritErrors) {
  write("a.yaml", "inherit: b.yaml\n");
  write("b.yaml", "inherit: [a.yaml]\n");
  EXPECT_EQ(error_of(folder_ / "a.yaml"),
            "'inherit' comes back to a.yaml\n  --> b.yaml:1:11     a file cannot inherit from itself\n");
  EXPECT_EQ(error_of(write("self.yaml", "inherit: ./sub/../self.yaml\n")),
            "'inherit' comes back to ./sub/../self.yaml\n  --> self.yaml:1:10     a file cannot inherit from "
            "itself\n");
  EXPECT_EQ(error_of(write("missing.yaml", "inherit: [no.yaml]\n")),
            "'inherit': got 'no.yaml', expected a file that exists\n  --> missing.yaml:1:11\n");
  EXPECT_EQ(error_of(write("folder.yaml", "inherit: [sub]\n")),
            "'inherit': got 'sub', expected a file that exists\n  --> folder.yaml:1:11\n");
  EXPECT_EQ(error_of(write("map.yaml", "inherit: {a: 1}\n")),
            "'inherit': got a map {a}, expected a list of files\n  --> map.yaml:1:10\n");
  EXPECT_EQ(error_of(write("null.yaml", "inherit: [null]\n")),
            "'inherit': got null, expected a file\n  --> null.yaml:1:11\n");
  write("list.yaml", "- 1\n");
  EXPECT_EQ(error_of(write("of_list.yaml", "inherit: list.yaml\n")),
            "the job: got a list of 1, expected a map of 'key: value'\n  --> list.yaml:1:1\n");
  EXPECT_EQ(job_of(write("none.yaml", "inherit: []\nseed: 1\n")).seed, 1u);
}

TEST_F(Load, InheritHasLimits) {
  write("0.yaml", "seed: 5\n");
  for (int i = 1; i <= 9; ++i) write(fmt::format("{}.yaml", i), fmt::format("inherit: {}.yaml\n", i - 1));
  EXPECT_EQ(job_of(folder_ / "8.yaml").seed, 5u);
  EXPECT_EQ(error_of(folder_ / "9.yaml"), "'inherit' is nested deeper than 8\n  --> 1.yaml:1:10\n");
  // Twice the file below at each level: 2^9 - 1 files.
  for (int i = 1; i <= 8; ++i)
    write(fmt::format("{}.yaml", i), fmt::format("inherit: [{0}.yaml, {0}.yaml]\n", i - 1));
  EXPECT_NE(error_of(folder_ / "8.yaml").find("'inherit' reads more than 64 files\n"), std::string::npos);
}

TEST_F(Load, PathsAreRelativeToTheFileThatHoldsThem) {
  write("sub/base.yaml", "data: {train: [x/one.h5, /abs/two.h5], cache_dir: ../cache}\n");
  const fs::path file = write("job.yaml", "inherit: sub/base.yaml\n");
  Job job = job_of(file);
  EXPECT_EQ(job.data.train, (std::vector<std::string>{(folder_ / "sub/x/one.h5").string(), "/abs/two.h5"}));
  EXPECT_EQ(job.data.cache_dir, (folder_ / "cache").string());
  job = job_of(file, {"data.train=here.h5"});
  EXPECT_EQ(job.data.train, std::vector<std::string>{(fs::current_path() / "here.h5").string()});
}

TEST_F(Load, AFileThatCannotBeReadIsAUsageError) {
  try {
    load_config(folder_ / "none.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_EQ(e.text(), "[file] " + (folder_ / "none.yaml").string() + ": no such file");
  }
}

}  // namespace
}  // namespace tandem::config_test
