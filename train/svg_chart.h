// Line charts as inline SVG, drawn for a card of about 340 to 520 pixels; colours come from the page's style
// sheet.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct ChartSeries {
  std::string name;                               // in the legend; empty: not named there
  std::string color;                              // CSS: "#2f74d0", "var(--ink)"
  std::vector<std::pair<double, double>> points;  // x, y with x rising; y that is not finite makes a gap
  bool is_step = false;                           // holds its value until the next point
  bool has_dots = false;                          // few points: each is drawn, with its value as a tooltip
  bool is_faint = false;                          // behind the others
  bool is_strong = false;                         // a thicker line
};

// Something that happened at x: a tick on the x axis with a tooltip, or a dashed line through the chart.
struct ChartMark {
  double x = 0;
  std::string title;
};

struct Chart {
  std::string title, x_name = "step", y_name;  // y_name: unit or quantity, above the axis
  std::vector<ChartSeries> series;
  std::vector<ChartMark> ticks, lines;
  double x_min = 0, x_max = 1;
  std::optional<double> y_min, y_max;  // nothing: from the data
  bool is_log2 = false;                // y > 0, ticks at powers of two
};

// Long series are thinned: at most 400 columns, of each its first, lowest, highest and last point, so that no
// peak is lost.
std::string svg_chart(const Chart& chart);

// Round tick positions: multiples of 1, 2 or 5 times a power of ten within [low, high], at most `count`.
std::vector<double> round_ticks(double low, double high, int count);

// Exponential mean, unbiased at the start: m_n = (1 - w) m_{n-1} + w y_n, divided by 1 - (1 - w)^n; values
// that are not finite are left out.
std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points,
                                                double weight);

}  // namespace tandem
