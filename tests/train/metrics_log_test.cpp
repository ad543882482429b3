// metrics.jsonl: exact text of the lines, numbers that read back, and cutting back to a checkpoint.
#include "train/metrics_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "tests/data/test_files.h"
#include "train/json.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::read_bytes;
using testing::TempFolder;
using testing::write_bytes;

TEST(MetricsLog, LinesAreAsDocumented) {
  const TempFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl");
    log.write(StepMetrics{.step = 3,
                          .epoch = 1,
                          .loss = 0.1f,
                          .lr = 0.002f,
                          .scale = 65536,
                          .event = StepEvent::kGood,
                          .grad_norm = 0.1,
                          .step_ms = 12.5,
                          .data_wait_ms = 0,
                          .forward_ms = 4,
                          .backward_ms = 8,
                          .update_ms = 0.5});
    log.write(ValidationMetrics{.step = 3,
                                .epoch = 1,
                                .dice = {{"liver", 1}, {"hip", 0.75}},
                                .mean_dice = 0.875,
                                .means = {{"iou", 0.5}},
                                .seconds = 2});
    log.write(EventMetrics{3, "loss_scale", "65536 -> 32768 (overflow)"});
    log.write(UsageMetrics{3, {{"forward", 1.5}}, {{"weights", 1024}}, 2048});
    log.sync();
  }
  EXPECT_EQ(
      read_bytes(folder / "metrics.jsonl"),
      R"({"kind": "step", "step": 3, "epoch": 1, "loss": 0.1, "lr": 0.002, "scale": 65536, "event": "good", "grad_norm": 0.1, "step_ms": 12.5, "data_wait_ms": 0, "forward_ms": 4, "backward_ms": 8, "update_ms": 0.5})"
      "\n"
      R"({"kind": "val", "step": 3, "epoch": 1, "dice": {"liver": 1, "hip": 0.75}, "mean_dice": 0.875, "mean_iou": 0.5, "seconds": 2})"
      "\n"
      R"x({"kind": "event", "step": 3, "event": "loss_scale", "text": "65536 -> 32768 (overflow)"})x"
      "\n"
      R"({"kind": "usage", "step": 3, "seconds": {"forward": 1.5}, "peak_bytes": {"weights": 1024}, "total_peak_bytes": 2048})"
      "\n");
}

TEST(MetricsLog, WhatIsNotFiniteIsNullAndNamed) {
  const TempFolder folder;
  MetricsLog log(folder / "m");
  log.write(StepMetrics{.step = 1, .loss = NAN, .event = StepEvent::kForward, .grad_norm = -INFINITY});
  log.write(ValidationMetrics{.step = 1, .loss = INFINITY, .dice = {{"a", NAN}, {"b", 1}}, .mean_dice = 1});
  const std::string text = read_bytes(folder / "m");
  EXPECT_THAT(text, HasSubstr(R"("loss": null, "loss_nonfinite": "nan", "lr": 0)"));
  EXPECT_THAT(
      text, HasSubstr(R"("event": "forward", "grad_norm": null, "grad_norm_nonfinite": "-inf", "step_ms")"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("loss": null, "loss_nonfinite": "inf", "dice": {"a": null, "b": 1}, "dice_nonfinite": {"a": "nan"})"));
}

TEST(MetricsLog, LinesAreThereAtOnceAndAppended) {
  const TempFolder folder;
  MetricsLog first(folder / "m");
  first.write(EventMetrics{1, "a", ""});
  EXPECT_FALSE(read_bytes(folder / "m").empty());  // nothing is held back
  MetricsLog second(folder / "m");
  second.write(EventMetrics{2, "b", ""});
  EXPECT_EQ(truncate_metrics(folder / "m", 9).kept_lines, 2);
}

TEST(Json, NumbersAreShortestAndReadBackExactly) {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 5e-324, 123456789.125, -0.0, 1e23}) {
    const std::string text = JsonObject().add("x", value).text();
    EXPECT_EQ(std::strtod(text.c_str() + 6, nullptr), value) << text;
  }
  for (const float value : {0.1f, 16777217.0f, 1e-45f, std::numeric_limits<float>::max()}) {
    const std::string text = JsonObject().add("x", value).text();
    EXPECT_EQ(std::strtof(text.c_str() + 6, nullptr), value) << text;
  }
  EXPECT_EQ(JsonObject().add("x", 0.1f).text(), R"({"x": 0.1})");
  EXPECT_EQ(JsonObject().add("x", std::int64_t{9007199254740993}).text(), R"({"x": 9007199254740993})");
}

TEST(Json, TextIsEscapedAndMadeUtf8) {
  const std::string text = JsonObject().add("a\"b", "line\n\t\\ \x01 \xff end").text();
  EXPECT_EQ(text, "{\"a\\\"b\": \"line\\n\\t\\\\ \\u0001 \xef\xbf\xbd end\"}");
  EXPECT_EQ(parse_json_object(text)->at("a\"b"), "line\n\t\\ \x01 \xef\xbf\xbd end");
}

TEST(Json, OnlyOneWholeObjectIsAccepted) {
  for (const char* text : {"", "{", "[1]", "1", "{} {}", "{\"a\": 1,}", "{\"a\": NaN}", "{\"a\"", "{'a': 1}"})
    EXPECT_FALSE(parse_json_object(text).has_value()) << text;
  EXPECT_TRUE(parse_json_object("{}").has_value());
  const auto nested = [](std::size_t depth) {
    return "{\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_json_object(nested(60)).has_value());
  EXPECT_FALSE(parse_json_object(nested(70)).has_value());
  EXPECT_FALSE(
      parse_json_object(nested(200000)).has_value());  // would exhaust the stack of a recursive reader
}

std::string line(int step, const char* kind = "step") {
  return JsonObject().add("kind", kind).add("step", step).text() + "\n";
}

struct Cut {
  std::string content, kept;
  bool cut;
};

TEST(TruncateMetrics, KeepsWhatBelongsToTheCheckpoint) {
  const std::string good = line(1) + line(2) + line(2, "val");
  const Cut cases[] = {
      {"", "", false},
      {line(1) + "torn {\n" + line(2) + line(2, "val"), line(1) + "torn {\n" + line(2) + line(2, "val"),
       false},
      {line(1) + "torn {\n" + line(2) + line(2, "val") + "{}\n" + line(3),
       line(1) + "torn {\n" + line(2) + line(2, "val"), true},
      {good, good, false},
      {good + line(3) + line(3, "val"), good, true},               // later steps
      {good + R"({"kind": "step", "st)", good, true},              // torn
      {good + line(2).substr(0, line(2).size() - 1), good, true},  // whole but for its newline
      {good + std::string(100, '\0'), good, true},                 // what a power cut leaves
      {good + "{\"kind\": \"step\"}\n", good, true},               // no step
      {good + "{\"step\": 1.5}\n", good, true},
      {line(3) + good, "", true},  // steps only grow
      {R"({"kind": "st)", "", true},
  };
  for (const Cut& c : cases) {
    const TempFolder folder;
    write_bytes(folder / "m", c.content);
    const MetricsTruncation result = truncate_metrics(folder / "m", 2);
    EXPECT_EQ(read_bytes(folder / "m"), c.kept) << c.content;
    EXPECT_EQ(result.cut, c.cut) << c.content;
    EXPECT_EQ(result.kept_lines, c.kept.empty() ? 0 : 3) << c.content;
  }
}

TEST(TruncateMetrics, EveryTornEndOfALineIsDropped) {
  const TempFolder folder;
  const std::string last = line(2);
  for (std::size_t size = 0; size < last.size(); ++size) {
    write_bytes(folder / "m", line(1) + last.substr(0, size));
    truncate_metrics(folder / "m", 5);
    EXPECT_EQ(read_bytes(folder / "m"), line(1)) << size;
  }
}

TEST(TruncateMetrics, AMissingFileIsFine) {
  const TempFolder folder;
  EXPECT_FALSE(truncate_metrics(folder / "none", 3).cut);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(MetricsLog, AnImpossiblePathIsAResourceError) {
  const TempFolder folder;
  EXPECT_THAT(testing::error_of(ErrorKind::kResource, [&] { MetricsLog(folder / "none/m"); }),
              HasSubstr("none/m: open failed: No such file or directory"));
}

TEST(ReadMetrics, WhatWasWrittenComesBack) {
  const TempFolder folder;
  {
    MetricsLog log(folder / "m");
    log.write(StepMetrics{
        .step = 1, .epoch = 2, .loss = 0.1f, .lr = 0.002f, .scale = 8, .step_ms = 3, .update_ms = 1});
    log.write(StepMetrics{.step = 2, .loss = NAN, .event = StepEvent::kOverflow, .grad_norm = -INFINITY});
    log.write(ValidationMetrics{.step = 2,
                                .loss = INFINITY,
                                .dice = {{"z", NAN}, {"a", 0.5}},
                                .mean_dice = 0.5,
                                .means = {{"iou", 0.25}, {"hd95", NAN}}});
    log.write(EventMetrics{2, "loss_scale", "8 -> 4 (overflow)"});
    log.write(UsageMetrics{2, {{"forward", 1.5}, {"backward", 3}}, {{"weights", 1024}}, 2048});
  }
  const MetricsHistory history = read_metrics(folder / "m");
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[0].epoch, 2);
  EXPECT_EQ(static_cast<float>(history.steps[0].loss), 0.1f);
  EXPECT_EQ(history.steps[0].scale, 8);
  EXPECT_EQ(history.steps[0].update_ms, 1);
  EXPECT_EQ(history.steps[1].event, StepEvent::kOverflow);
  EXPECT_TRUE(std::isnan(history.steps[1].loss));
  EXPECT_EQ(history.steps[1].grad_norm, -INFINITY);
  ASSERT_EQ(history.validations.size(), 1u);
  EXPECT_EQ(history.validations[0].loss, INFINITY);
  ASSERT_EQ(history.validations[0].dice.size(), 2u);
  EXPECT_EQ(history.validations[0].dice[0].first, "z");  // in the order of the file
  EXPECT_TRUE(std::isnan(history.validations[0].dice[0].second));
  EXPECT_EQ(history.validations[0].dice[1], (std::pair<std::string, double>{"a", 0.5}));
  ASSERT_EQ(history.validations[0].means.size(), 2u);
  EXPECT_EQ(history.validations[0].means[1], (std::pair<std::string, double>{"iou", 0.25}));
  EXPECT_EQ(history.events.at(0).text, "8 -> 4 (overflow)");
  EXPECT_EQ(history.usage.at(0).seconds.at(1), (std::pair<std::string, double>{"backward", 3}));
  EXPECT_EQ(history.usage.at(0).total_peak_bytes, 2048);
  EXPECT_EQ(history.unreadable_lines, 0);
}

TEST(ReadMetrics, UnreadableLinesArePassedOverAndCounted) {
  const TempFolder folder;
  const std::string long_line = "{\"step\": 2, \"x\": \"" + std::string(3 << 20, 'x') + "\"}\n";
  write_bytes(folder / "m",
              line(1) + "\n" + std::string(40, '\0') + "\n" + long_line + line(3) + "{\"kind\": \"st");
  const MetricsHistory history = read_metrics(folder / "m");
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[1].step, 3);
  EXPECT_EQ(history.unreadable_lines, 4);
  EXPECT_EQ(history.first_unreadable_line, 2);
}

TEST(ReadMetrics, CausesAndUnknownMembersAndKinds) {
  const TempFolder folder;
  write_bytes(
      folder / "m",
      R"({"kind": "step", "step": 1, "event": "overflow", "cause": {"layer": "enc0", "index": [0, 1], "magnitude": 70000.5}, "new": [1]})"
      "\n"
      R"({"kind": "later", "step": 1})"
      "\n");
  const MetricsHistory history = read_metrics(folder / "m");
  ASSERT_EQ(history.steps.size(), 1u);
  EXPECT_EQ(history.steps[0].cause_members.at("layer"), "enc0");
  EXPECT_EQ(history.steps[0].cause_members.at("index"), "[0,1]");
  EXPECT_EQ(history.steps[0].cause_members.at("magnitude"), "70000.5");
  EXPECT_EQ(history.unreadable_lines, 0);
}

TEST(ReadMetrics, ValidationsFollowTheirSteps) {
  MetricsHistory history;
  for (const int step : {1, 2, 3}) history.steps.emplace_back().step = step;
  history.validations = {{.step = 2}, {.step = 3}};
  std::string order;
  history.in_order([&](const auto& step) { order += fmt::format("s{} ", step.step); },
                   [&](const auto& validation) { order += fmt::format("v{} ", validation.step); });
  EXPECT_EQ(order, "s1 s2 v2 s3 v3 ");
}

TEST(ReadMetrics, AFolderInPlaceOfTheFileIsOneClearLine) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "metrics.jsonl");
  const auto path = folder / "metrics.jsonl";
  for (const auto& use : std::initializer_list<std::function<void()>>{
           [&] { read_metrics(path); }, [&] { truncate_metrics(path, 1); }, [&] { MetricsLog log(path); }})
    EXPECT_THAT(testing::error_of(ErrorKind::kResource, use),
                HasSubstr("metrics.jsonl: got a folder, expected a file or nothing. Move it"));
}

}  // namespace
}  // namespace tandem
