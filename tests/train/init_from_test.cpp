// Weights of one checkpoint in another model: what is taken, what is left, renaming, strictness.
#include "train/init_from.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor filled(const Shape& shape, double value) {
  return Tensor::from_values(shape, std::vector<double>(static_cast<std::size_t>(shape.numel()), value),
                             DType::kF32, kCpuDevice);
}

// A model of four tensors; the checkpoint has two of them, one of another shape, one of its own, and a
// moment.
struct Models {
  CheckpointContent content;
  std::vector<NamedTensor> targets;
  Models() {
    content.tensors = {{"model/enc0.weight", filled({2, 3}, 1)},
                       {"model/head0.weight", filled({4, 3}, 2)},
                       {"model/old.weight", filled({1}, 3)},
                       {"buffer/norm.mean", filled({2}, 4)},
                       {"optimizer/momentum/enc0.weight", filled({2, 3}, 9)}};
    targets = {{"model/enc0.weight", filled({2, 3}, 0)},
               {"model/head0.weight", filled({5, 3}, 0)},
               {"model/new.weight", filled({1}, 0)},
               {"buffer/norm.mean", filled({2}, 0)}};
  }
  double at(std::size_t i) const { return targets[i].tensor.to_values().front(); }
  std::string error(const std::vector<RenameRule>& rules, bool strict) {
    try {
      initialise_weights(content, targets, rules, strict);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kCheckpoint);
      return e.what();
    }
    return "";
  }
};

// What was validated with optimizer.ema is the running mean, so that is what goes on.
TEST(InitFrom, TakesTheRunningMeanWhereThereIsOne) {
  Models m;
  m.content.tensors.push_back({"ema/enc0.weight", filled({2, 3}, 7)});
  const InitReport report = initialise_weights(m.content, m.targets, {}, false);
  EXPECT_THAT(report.taken, ElementsAre("enc0.weight", "norm.mean"));
  EXPECT_THAT(report.unused, ElementsAre(HasSubstr("old.weight")));
  EXPECT_EQ(m.at(0), 7);
}

TEST(InitFrom, TakesWhatFitsAndNamesTheRest) {
  Models m;
  const InitReport report = initialise_weights(m.content, m.targets, {}, false);
  EXPECT_THAT(report.taken, ElementsAre("enc0.weight", "norm.mean"));
  EXPECT_THAT(report.missing, ElementsAre("new.weight"));
  EXPECT_THAT(report.different, ElementsAre(HasSubstr("head0.weight")));
  EXPECT_THAT(report.different[0], ::testing::AllOf(HasSubstr("[5, 3]"), HasSubstr("[4, 3]")));
  EXPECT_THAT(report.unused, ElementsAre(HasSubstr("old.weight")));
  EXPECT_EQ(m.at(0), 1);
  EXPECT_EQ(m.at(1), 0);
  EXPECT_EQ(m.at(2), 0);
  EXPECT_EQ(m.at(3), 4);
  EXPECT_THAT(report.text(),
              HasSubstr("2 of 4 tensors taken\n  1 not in the checkpoint, left as initialised: new.weight"));
}

TEST(InitFrom, StrictRefusesAndChangesNothing) {
  Models m;
  EXPECT_THAT(m.error({}, true), ::testing::AllOf(HasSubstr("2 of 4 tensors taken"), HasSubstr("old.weight"),
                                                  HasSubstr("model.init_strict: false")));
  EXPECT_EQ(m.at(0), 0);
  m.content.tensors.erase(m.content.tensors.begin() + 1, m.content.tensors.begin() + 3);
  m.targets.erase(m.targets.begin() + 1, m.targets.begin() + 3);
  EXPECT_TRUE(initialise_weights(m.content, m.targets, {}, true).complete());
}

TEST(InitFrom, NamesAreMapped) {
  Models m;
  const std::vector<RenameRule> rules = parse_rename_rules({"old.*=new.*", "head0.weight=gone"});
  const InitReport report = initialise_weights(m.content, m.targets, rules, false);
  EXPECT_THAT(report.taken, ElementsAre("enc0.weight", "new.weight", "norm.mean"));
  EXPECT_EQ(m.at(2), 3);
  EXPECT_THAT(report.missing, ElementsAre("head0.weight"));
  EXPECT_EQ(renamed("encoder.stages.0.conv.weight", parse_rename_rules({"encoder.stages.*.weight=enc*.w"})),
            "enc0.conv.w");
  EXPECT_EQ(renamed("a.b", parse_rename_rules({"a.*=x", "a.b=y"})), "x");  // the first that fits
  EXPECT_EQ(renamed("ab", parse_rename_rules({"ab*ab=x"})), "ab");         // head and tail may not overlap
  EXPECT_THAT(m.error(parse_rename_rules({"*=one"}), false), HasSubstr("become 'one'"));
  for (const char* text : {"enc", "=a", "a=", "a=b=c", "a**=b", "a=b*", "a*=b**"})
    EXPECT_THROW(parse_rename_rules({text}), Error) << text;
}

TEST(InitFrom, NothingThatFitsIsAnError) {
  Models m;
  m.targets.resize(1);
  m.targets[0].name = "model/stem.weight";
  EXPECT_THAT(m.error({}, false),
              ::testing::AllOf(HasSubstr("0 of 1 tensor taken"), HasSubstr("init_rename")));
}

}  // namespace
}  // namespace tandem
