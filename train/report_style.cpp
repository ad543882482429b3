// The style sheet of report.html: light and dark by the reader's setting, one column on a telephone.
#include "train/report_sections.h"

namespace tandem {

const char* const kReportStyle = R"css(:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #18202b; --soft: #5a6573; --line: #e1e5ea; --accent: #2f74d0;
  --bad: #c2410c; --bar: #2f74d033;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11151a; --card: #191f27; --ink: #e5e9ef; --soft: #9aa6b4; --line: #2b333e; --accent: #5b9bf0;
    --bad: #fb8a4c; --bar: #5b9bf044;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 26px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 10px; }
h3 { font-size: 15px; margin: 18px 0 8px; overflow-wrap: anywhere; }
p { margin: 6px 0; overflow-wrap: anywhere; }
.soft, figcaption, footer { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; margin: 0 0 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 150px), 1fr)); gap: 12px; margin: 18px 0 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px; }
.tile b { display: block; font-size: 22px; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: 14px; }
figure { margin: 0; }
.chart { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 12px; min-width: 0; }
.chart figcaption { color: var(--ink); font-weight: 600; font-size: 14px; }
.chart svg { display: block; width: 100%; height: auto; }
.chart text { fill: var(--soft); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
.chart .name { font-size: 11px; }
.chart .grid { stroke: var(--line); }
.chart .axis { stroke: var(--soft); }
.chart .event { stroke: var(--soft); stroke-dasharray: 4 4; }
.chart .skip { fill: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 13px; color: var(--soft); }
.legend i, .swatch { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 5px; vertical-align: -1px; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 550; }
tbody tr:last-child td { border-bottom: 0; }
dl { display: grid; grid-template-columns: minmax(0, 260px) minmax(0, 1fr); gap: 6px 18px; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.bar { display: inline-block; min-width: 74px; padding: 1px 6px; border-radius: 4px;
  background: linear-gradient(90deg, var(--bar) var(--share), transparent var(--share)); }
.stack { display: flex; height: 22px; border-radius: 6px; overflow: hidden; margin: 4px 0 12px; }
.stack i { display: block; min-width: 1px; }
.bad { color: var(--bad); font-weight: 600; }
.planes { display: flex; flex-wrap: wrap; gap: 18px 30px; }
.trio { display: flex; flex-wrap: wrap; gap: 8px 10px; align-items: flex-end; }
.trio figure { min-width: 0; }
.trio img { display: block; width: 100%; background: #000; border-radius: 4px; image-rendering: pixelated; }
.trio figcaption { font-size: 13px; }
details { margin: 0 0 10px; }
summary { cursor: pointer; }
pre { overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; margin: 8px 0 0; }
footer { font-size: 13px; margin-top: 28px; }
@media (max-width: 560px) { main { padding: 18px 12px 30px; } h1 { font-size: 22px; } .card { padding: 12px; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: 8px; } }
@media print { body { background: #fff; } .card, .chart, .tile { break-inside: avoid; } }
)css";

}  // namespace tandem
