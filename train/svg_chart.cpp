// Axes, ticks, polylines.
#include "train/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/html.h"

namespace tandem {
namespace {

constexpr double kWidth = 460, kHeight = 250;
constexpr double kLeft = 52, kRight = 12, kTop = 28, kBottom = 34;
constexpr std::size_t kColumns = 400;
constexpr std::size_t kMaxTicks = 400;  // marks on the axis

using Points = std::vector<std::pair<double, double>>;

// From data to the picture.
struct Frame {
  double x_min, x_max, y_min, y_max;

  double x(double value) const {
    return kLeft + (value - x_min) / (x_max - x_min) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_min) / (y_max - y_min) * (kHeight - kTop - kBottom);
  }
};

double shown_value(const Chart& chart, double y) {
  return chart.is_log2 ? (y > 0 ? std::log2(y) : std::numeric_limits<double>::quiet_NaN()) : y;
}

Frame frame_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : chart.series)
    for (const auto& [x, y] : series.points) {
      const double value = shown_value(chart, y);
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (low > high) low = 0, high = 1;
  const double margin = chart.is_log2 ? 1 : std::max((high - low) * 0.06, std::abs(high) * 1e-6 + 1e-12);
  low = chart.y_min.value_or(low - margin);
  high = chart.y_max.value_or(high + margin);
  if (!(high > low)) high = low + 1;
  return {chart.x_min, std::max(chart.x_max, chart.x_min + 1), low, high};
}

// First, lowest, highest and last point of each column of the picture.
Points thinned(const Points& points, const Frame& frame) {
  if (points.size() <= 4 * kColumns) return points;
  const double width = (frame.x_max - frame.x_min) / kColumns;
  Points out;
  for (std::size_t begin = 0; begin < points.size();) {
    const double column = std::floor((points[begin].first - frame.x_min) / width);
    std::size_t end = begin, lowest = begin, highest = begin;
    for (; end < points.size() && std::floor((points[end].first - frame.x_min) / width) <= column; ++end) {
      if (points[end].second < points[lowest].second) lowest = end;
      if (points[end].second > points[highest].second) highest = end;
    }
    std::vector<std::size_t> kept{begin, lowest, highest, end - 1};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t i : kept) out.push_back(points[i]);
    begin = end;
  }
  return out;
}

std::string path_of(const Chart& chart, const ChartSeries& series, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  double last_y = 0;
  for (const auto& [x, y] : thinned(series.points, frame)) {
    const double value = shown_value(chart, y);
    if (!std::isfinite(value)) {
      pen_down = false;
      continue;
    }
    const double px = frame.x(x), py = std::clamp(frame.y(value), 0.0, kHeight);
    if (!pen_down)
      path += fmt::format("M{:.1f} {:.1f}", px, py);
    else if (series.is_step && py != last_y)
      path += fmt::format("H{:.1f}V{:.1f}", px, py);
    else
      path += fmt::format("L{:.1f} {:.1f}", px, py);
    last_y = py;
    pen_down = true;
  }
  return path;
}

std::string draw_series(const Chart& chart, const ChartSeries& series, const Frame& frame) {
  const double width = series.is_strong ? 2.4 : series.is_faint ? 1 : 1.7;
  std::string out = fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}/>\n",
      path_of(chart, series, frame), series.color, width, series.is_faint ? " opacity=\"0.35\"" : "");
  if (!series.has_dots) return out;
  for (const auto& [x, y] : series.points) {
    if (!std::isfinite(shown_value(chart, y))) continue;
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{}: {} at {} {}</title></circle>\n",
        frame.x(x), frame.y(shown_value(chart, y)), series.is_strong ? 3.4 : 2.6, series.color,
        html_escaped(series.name), number_text(y), chart.x_name, x);
  }
  return out;
}

// 2^k, its exponent raised.
std::string power_of_two(double exponent) {
  return fmt::format("2<tspan dy=\"-4\" font-size=\"9\">{:.0f}</tspan>", exponent);
}

// Whole numbers up to a million as they are, others with three digits.
std::string tick_text(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e6;
  return whole ? fmt::format("{:.0f}", value) : number_text(value, 3);
}

std::string draw_axes(const Chart& chart, const Frame& frame) {
  std::string out;
  for (const double y : round_ticks(frame.y_min, frame.y_max, 5)) {
    if (chart.is_log2 && y != std::floor(y)) continue;
    out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
                       kWidth - kRight, frame.y(y), frame.y(y));
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 7,
                       frame.y(y) + 4, chart.is_log2 ? power_of_two(y) : tick_text(y));
  }
  for (const double x : round_ticks(frame.x_min, frame.x_max, 6))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", frame.x(x),
                       kHeight - kBottom + 17, number_text(x, 7));
  out += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", kLeft,
                     kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
  out += fmt::format("<text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                     kWidth - kRight, kHeight - 3, html_escaped(chart.x_name));
  out += fmt::format("<text class=\"name\" x=\"2\" y=\"12\">{}</text>\n", html_escaped(chart.y_name));
  return out;
}

std::string draw_marks(const Chart& chart, const Frame& frame) {
  std::string out;
  for (const ChartMark& line : chart.lines)
    out += fmt::format(
        "<line class=\"event\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" "
        "y2=\"{2}\"><title>{3}</title></line>\n",
        frame.x(line.x), kTop, kHeight - kBottom, html_escaped(line.title));
  const std::size_t stride = chart.ticks.size() / kMaxTicks + 1;
  for (std::size_t i = 0; i < chart.ticks.size(); i += stride)
    out += fmt::format("<path class=\"skip\" d=\"M{:.1f} {}l-4 8h8z\"><title>{}</title></path>\n",
                       frame.x(chart.ticks[i].x), kHeight - kBottom - 8, html_escaped(chart.ticks[i].title));
  return out;
}

std::string draw_legend(const Chart& chart) {
  std::string out;
  for (const ChartSeries& series : chart.series)
    if (!series.name.empty())
      out += fmt::format("<span><i style=\"background:{}\"></i>{}</span>\n", series.color,
                         html_escaped(series.name));
  return out.empty() ? out : "<div class=\"legend\">\n" + out + "</div>\n";
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low) || !std::isfinite(high - low)) return ticks;
  const double wanted = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= wanted * (1 - 1e-9)) break;
  }
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k)
    ticks.push_back(k * step + 0.0);  // no -0
  return ticks;
}

std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points,
                                                double weight) {
  Points out;
  double mean = 0, share = 0;
  for (const auto& [x, y] : points) {
    if (!std::isfinite(y)) continue;
    mean += weight * (y - mean);
    share += weight * (1 - share);
    out.emplace_back(x, mean / share);
  }
  return out;
}

std::string svg_chart(const Chart& chart) {
  const Frame frame = frame_of(chart);
  std::string out = fmt::format(
      "<figure class=\"chart\"><figcaption>{}</figcaption>\n"
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
      html_escaped(chart.title), kWidth, kHeight, html_escaped(chart.title));
  out += draw_axes(chart, frame);
  for (const ChartSeries& series : chart.series) out += draw_series(chart, series, frame);
  out += draw_marks(chart, frame);
  return out + "</svg>\n" + draw_legend(chart) + "</figure>\n";
}

}  // namespace tandem
