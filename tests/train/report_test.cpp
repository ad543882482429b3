// Charts and the page of a run: what they must say, and that nothing of a run can break the page.
#include "train/report.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/data/test_files.h"
#include "train/report_sections.h"
#include "train/run_log.h"
#include "train/svg_chart.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;
using testing::write_bytes;

TEST(SvgChart, TicksAreRound) {
  EXPECT_THAT(round_ticks(0, 100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(round_ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(round_ticks(3, 7, 2), ElementsAre(4, 6));
  EXPECT_THAT(round_ticks(1, 1, 5), ElementsAre());
  EXPECT_THAT(round_ticks(0, INFINITY, 5), ElementsAre());
}

TEST(SvgChart, TheSmoothedMeanIsUnbiased) {
  const auto out = smoothed({{1, 2}, {2, NAN}, {3, 4}}, 0.5);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], (std::pair<double, double>{1, 2}));
  // m = 0.5 * 1 + 0.5 * 4 = 2.5, divided by 1 - 0.25
  EXPECT_DOUBLE_EQ(out[1].second, 2.5 / 0.75);
}

TEST(SvgChart, LongSeriesAreThinnedWithoutLosingAPeak) {
  Chart chart{.title = "t", .x_max = 100000};
  ChartSeries series{.name = "s", .color = "red"};
  for (int i = 0; i <= 100000; ++i) series.points.emplace_back(i, i == 54321 ? 1000 : std::sin(i));
  chart.series = {series};
  const std::string svg = svg_chart(chart);
  EXPECT_LT(svg.size(), 60000u);
  // The highest value is at 28 + 188 * 60.06 / 1121.1 of the drawing area: 6 % of the range above it stay
  // free.
  EXPECT_THAT(svg, HasSubstr(" 38.1"));
}

TEST(SvgChart, NothingAndNonFiniteValuesMakeGapsNotPictures) {
  for (const std::vector<std::pair<double, double>>& points :
       {std::vector<std::pair<double, double>>{}, {{1, NAN}, {2, INFINITY}}, {{1, 5}}, {{1, 0}, {2, -1}}}) {
    Chart chart{.title = "a < b", .is_log2 = true};
    chart.series = {{.name = "<s>", .color = "red", .points = points, .has_dots = true}};
    const std::string svg = svg_chart(chart);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  }
}

void write_run(const TempFolder& folder) {
  RunLog log(folder.path(), false, {"hip", "<b>"}, {});
  log.write(EventMetrics{0, "start", "cpu (avx2, 1 threads), compute F16: <fast>\nunet3d: 5 parameters"});
  for (int n = 1; n <= 40; ++n)
    log.write(StepMetrics{.step = n,
                          .loss = 1.0 / n,
                          .lr = 0.001,
                          .scale = n > 30 ? 32768.0 : 65536.0,
                          .event = n == 30 ? StepEvent::kOverflow : StepEvent::kGood,
                          .grad_norm = n == 30 ? NAN : 1,
                          .step_ms = 100,
                          .data_wait_ms = 10});
  log.write(EventMetrics{30, "loss_scale", "65536 -> 32768 (overflow)"});
  log.write(ValidationMetrics{.step = 40, .dice = {{"hip", 0.75}, {"<b>", NAN}}, .mean_dice = 0.75});
  log.write(UsageMetrics{40, {{"forward", 1}, {"backward", 3}}, {{"weights", 1048576}}, 2097152});
}

TEST(Report, SaysWhatTheRunDid) {
  const TempFolder folder;
  write_run(folder);
  write_bytes(folder / "environment.json",
              R"({"version": "0.1.0", "isa": "avx2", "compute": "F16", "device": "cpu", "threads": 1})");
  const std::string page = report_html(read_run(folder.path()));
  for (const char* text :
       {"&lt;fast&gt;<br>unet3d", "<b>0.75</b><span>mean Dice, last validation", "<b>1</b><span>step skipped",
        "<b>100 ms</b>", "<b>2.0 MiB</b><span>peak", "65536 -&gt; 32768 (step 30, overflow); 1 skipped",
        "1 of 40 steps skipped (2.5 %)", "step 30 at scale 65536: gradient not finite",
        "step 30 skipped: overflow", "F16 on cpu (avx2, threads: 1)", "75.0 %", "hip", "&lt;b&gt;"})
    EXPECT_THAT(page, HasSubstr(text));
}

// Scores of a job with regions carry the regions' names.
TEST(Report, RegionsTakeTheClassesPlace) {
  const TempFolder folder;
  write_bytes(
      folder / "config.resolved.yaml",
      "data: {train: [a.h5], labels: {background: 0, necrosis: 1, oedema: 2}, regions: {whole: [1, 2], "
      "core: 1}}\nloss: {name: dice_bce}\ntrain: {iterations: 5}\n");
  RunLog log(folder.path(), false, {"whole", "core"}, {});
  log.write(ValidationMetrics{.step = 5, .dice = {{"whole", 0.75}, {"core", 0.5}}, .mean_dice = 0.625});
  const std::string page = report_html(read_run(folder.path()));
  EXPECT_THAT(page, HasSubstr("core"));
  EXPECT_THAT(page.substr(0, page.find("config.resolved.yaml")), Not(HasSubstr("oedema</th>")));
  const RunRecord run = read_run(folder.path());
  EXPECT_THAT(facts_of(run).classes, ElementsAre("whole", "core"));
}

TEST(Report, NamesTheLayerThatOverflowed) {
  const TempFolder folder;
  write_bytes(
      folder / "metrics.jsonl",
      R"({"kind": "step", "step": 1, "scale": 8, "event": "overflow", "loss": 1, "cause": {"pass": "backward", "layer": "enc0.conv1", "op": "conv", "tensor": "weight gradient", "index": [0, 1], "magnitude": "inf", "samples": ["left@[1, 2, 3]"]}})"
      "\n"
      R"({"kind": "step", "step": 2, "scale": 4, "event": "forward", "loss": null, "cause": {"layer": "head"}})"
      "\n"
      R"({"kind": "step", "step": 3, "scale": 2, "event": "forward", "loss": null})"
      "\n"
      R"({"kind": "step", "step": 4, "scale": 2, "event": "forward", "loss": null, "cause": {"pass": "forward", "layer": "", "place": "the input image", "op": "cast"}})"
      "\n"
      R"({"kind": "step", "step": 5, "scale": 2, "event": "forward", "loss": null, "cause": {"layer": "", "place": "after layer head0"}})"
      "\n");
  const std::string page = report_html(read_run(folder.path()));
  for (const char* text :
       {"first in <b>enc0.conv1, conv (backward)</b>, weight gradient[0,1]", "<td>inf</td>", "left@[1, 2, 3]",
        "Skips by layer: enc0.conv1 1, head 1", "step 1 skipped: overflow in enc0.conv1",
        "<td>the input image, cast (forward)</td>", "step 4 skipped: forward in the input image",
        "step 5 skipped: forward after layer head0"})
    EXPECT_THAT(page, HasSubstr(text));
}

TEST(Report, NeedsNothingOutsideTheFileAndNothingButTheFolder) {
  const TempFolder folder;
  write_run(folder);
  write_validation(folder.path(),
                   {.step = 40,
                    .cases = {{.id = "case <1>",
                               .mean_dice = 0.75,
                               .metrics = {{"dice", {{"hip", 0.75}}}, {"hd95", {{"hip", 2.5}}}},
                               .pictures = {{.plane = "axial",
                                             .png = {encode_png(Picture(4, 2)), encode_png(Picture(4, 2)),
                                                     encode_png(Picture(4, 2))},
                                             .width_mm = 40,
                                             .height_mm = 20}}}}});
  const std::string page = report_html(read_run(folder.path()));
  for (const char* text : {"http:", "https:", "<script", "<link", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(text)));
  EXPECT_THAT(page, HasSubstr("case &lt;1&gt;"));
  EXPECT_THAT(page, HasSubstr("--share:75.0%\">0.7500"));
  EXPECT_THAT(page, HasSubstr("<td>2.50</td>"));
  EXPECT_THAT(page, HasSubstr("aspect-ratio:230.0/115.0"));
  std::size_t pictures = 0;
  for (std::size_t at = 0; (at = page.find("src=\"data:image/png;base64,iVBOR", at)) != std::string::npos;
       ++at)
    ++pictures;
  EXPECT_EQ(pictures, 3u);
  EXPECT_EQ(write_report(folder.path()), folder / "report.html");
  EXPECT_EQ(testing::read_bytes(folder / "report.html"), page);
}

TEST(Report, ARunWithoutAnythingIsStillAPage) {
  const TempFolder folder;
  EXPECT_THAT(testing::error_of(ErrorKind::kUsage, [&] { read_run(folder.path()); }),
              HasSubstr("no run folder"));
  write_bytes(folder / "metrics.jsonl", "torn {\n");
  const std::string page = report_html(read_run(folder.path()));
  EXPECT_THAT(page, HasSubstr("No step is logged yet."));
  EXPECT_THAT(page, HasSubstr("1 lines of metrics.jsonl could not be read (the first: line 1)"));
  write_bytes(folder / "config.resolved.yaml", "name: [");
  EXPECT_THAT(report_html(read_run(folder.path())), HasSubstr("name: ["));
}

}  // namespace
}  // namespace tandem
