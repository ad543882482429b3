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
                          .data_wait_ms = 0});
    log.write(ValidationMetrics{
        .step = 3, .epoch = 1, .dice = {{"hip", 0.75}, {"liver", 1}}, .mean_dice = 0.875, .seconds = 2});
    log.write_event(3, "checkpoint", "step-000000003.h5");
    log.sync();
  }
  EXPECT_EQ(
      read_bytes(folder / "metrics.jsonl"),
      R"({"kind": "step", "step": 3, "epoch": 1, "loss": 0.1, "lr": 0.002, "scale": 65536, "event": "good", "grad_norm": 0.1, "step_ms": 12.5, "data_wait_ms": 0})"
      "\n"
      R"({"kind": "val", "step": 3, "epoch": 1, "dice": {"hip": 0.75, "liver": 1}, "mean_dice": 0.875, "seconds": 2})"
      "\n"
      R"({"kind": "event", "step": 3, "event": "checkpoint", "text": "step-000000003.h5"})"
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
  first.write_event(1, "a", "");
  EXPECT_FALSE(read_bytes(folder / "m").empty());  // nothing is held back
  MetricsLog second(folder / "m");
  second.write_event(2, "b", "");
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

}  // namespace
}  // namespace tandem
