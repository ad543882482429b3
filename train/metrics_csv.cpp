// Cells and rows of metrics.csv.
#include "train/metrics_csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out(1, '"');
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
  return out;
}

}  // namespace

std::string CsvTable::header() const {
  std::string line =
      "kind,step,epoch,loss,lr,scale,event,grad_norm,step_ms,data_wait_ms,forward_ms,backward_ms,update_ms,"
      "mean_dice";
  for (const std::string& name : classes_) line += fmt::format(",{}", quoted("dice_" + name));
  return line + "\n";
}

std::string CsvTable::row(const StepMetrics& m) const {
  return fmt::format("step,{},{},{},{},{},{},{},{},{},{},{},{},{}\n", m.step, m.epoch,
                     static_cast<float>(m.loss), static_cast<float>(m.lr), static_cast<float>(m.scale),
                     event_name(m.event), m.grad_norm, m.step_ms, m.data_wait_ms, m.forward_ms, m.backward_ms,
                     m.update_ms, std::string(classes_.size(), ','));
}

std::string CsvTable::row(const ValidationMetrics& m) const {
  std::string line = fmt::format("val,{},{},{},,,,,,,,,,{}", m.step, m.epoch,
                                 m.loss ? fmt::format("{}", static_cast<float>(*m.loss)) : "", m.mean_dice);
  for (const std::string& name : classes_) {
    const auto it = std::ranges::find(m.dice, name, [](const auto& entry) { return entry.first; });
    line += it == m.dice.end() ? "," : fmt::format(",{}", it->second);
  }
  return line + "\n";
}

std::string CsvTable::text(const MetricsHistory& history) const {
  std::string table = header();
  history.in_order([&](const MetricsHistory::Step& step) { table += row(step); },
                   [&](const ValidationMetrics& validation) { table += row(validation); });
  return table;
}

}  // namespace tandem
