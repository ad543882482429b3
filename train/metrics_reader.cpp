// The one walk over the lines of metrics.jsonl, and what reads a history or cuts the file with it.
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/error.h"
#include "train/json.h"
#include "train/metrics_log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLineBytes = 1 << 20;

using Members = std::map<std::string, std::string>;

// One line of the file. members and step are there only where the line is a whole record.
struct Line {
  std::int64_t number = 0;  // from 1
  std::uintmax_t end = 0;   // offset behind its newline
  std::optional<Members> members;
  std::int64_t step = 0;
};

std::string text_of(const Members& members, const char* key) {
  const auto it = members.find(key);
  return it == members.end() ? std::string() : it->second;
}

std::optional<std::int64_t> integer_of(const Members& members, const char* key) {
  const std::string text = text_of(members, key);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

void interpret(std::string_view text, bool whole, Line& line) {
  line.members.reset();
  if (!whole) return;
  const auto ordered = json_members(text);  // objects inside keep their order
  if (!ordered) return;
  Members members(ordered->begin(), ordered->end());
  const auto step = integer_of(members, "step");
  if (!step) return;
  line.step = *step;
  line.members = std::move(members);
}

// Calls `visit` for every line until it says false. A line above kMaxLineBytes is never held in whole.
void for_each_line(const fs::path& path, const std::function<bool(const Line&)>& visit) {
  expect_file_or_nothing(path);
  std::error_code error;
  if (!fs::exists(path, error)) return;
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    fail(ErrorKind::kResource, "[metrics] {}: open failed: {}", path.string(), std::strerror(errno));
  Line line;
  std::string text, buffer(65536, '\0');
  bool too_long = false;
  const auto finish = [&](bool whole) {
    ++line.number;
    interpret(text, whole && !too_long, line);
    text.clear();
    too_long = false;
    return visit(line);
  };
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0) {
    std::string_view rest(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    while (!rest.empty()) {
      const std::size_t newline = rest.find('\n');
      const std::string_view piece = rest.substr(0, newline);
      if (text.size() + piece.size() > kMaxLineBytes) too_long = true;
      if (!too_long) text += piece;
      const bool ends = newline != std::string_view::npos;
      line.end += piece.size() + (ends ? 1 : 0);
      if (ends && !finish(true)) return;
      rest.remove_prefix(ends ? newline + 1 : rest.size());
    }
  }
  if (!text.empty() || too_long) finish(false);
}

// The number `key`: null stands for what KEY_nonfinite says; missing: 0.
double number_of(const Members& members, const std::string& key) {
  return json_number(text_of(members, key.c_str()), text_of(members, (key + "_nonfinite").c_str()));
}

// The object `key` of numbers, in its order.
NamedNumbers numbers_of(const Members& members, const std::string& key) {
  NamedNumbers numbers;
  const auto nonfinite = parse_json_object(text_of(members, (key + "_nonfinite").c_str()));
  for (const auto& [name, text] : json_members(text_of(members, key.c_str())).value_or(JsonMembers{}))
    numbers.emplace_back(name, json_number(text, nonfinite ? text_of(*nonfinite, name.c_str()) : ""));
  return numbers;
}

StepEvent event_of(const std::string& name) {
  for (const StepEvent event : {StepEvent::kGood, StepEvent::kOverflow})
    if (name == event_name(event)) return event;
  return StepEvent::kForward;
}

MetricsHistory::Step step_of(const Line& line) {
  const Members& m = *line.members;
  MetricsHistory::Step step;
  step.step = line.step;
  step.epoch = integer_of(m, "epoch").value_or(0);
  step.loss = number_of(m, "loss");
  step.lr = number_of(m, "lr");
  step.scale = number_of(m, "scale");
  step.event = event_of(text_of(m, "event"));
  step.grad_norm = number_of(m, "grad_norm");
  step.step_ms = number_of(m, "step_ms");
  step.data_wait_ms = number_of(m, "data_wait_ms");
  step.forward_ms = number_of(m, "forward_ms");
  step.backward_ms = number_of(m, "backward_ms");
  step.update_ms = number_of(m, "update_ms");
  step.gradient_amax = number_of(m, "gradient_amax");
  step.cause_members = parse_json_object(text_of(m, "cause")).value_or(Members{});
  return step;
}

ValidationMetrics validation_of(const Line& line) {
  const Members& m = *line.members;
  ValidationMetrics validation{.step = line.step,
                               .epoch = integer_of(m, "epoch").value_or(0),
                               .dice = numbers_of(m, "dice"),
                               .mean_dice = number_of(m, "mean_dice"),
                               .seconds = number_of(m, "seconds")};
  if (m.contains("loss")) validation.loss = number_of(m, "loss");
  for (const auto& [key, text] : m)
    if (key.starts_with("mean_") && key != "mean_dice" && !key.ends_with("_nonfinite"))
      validation.means.emplace_back(key.substr(5), number_of(m, key));
  return validation;
}

}  // namespace

void MetricsHistory::in_order(const std::function<void(const Step&)>& on_step,
                              const std::function<void(const ValidationMetrics&)>& on_validation) const {
  auto validation = validations.begin();
  for (const Step& step : steps) {
    for (; validation != validations.end() && validation->step < step.step; ++validation)
      on_validation(*validation);
    on_step(step);
  }
  for (; validation != validations.end(); ++validation) on_validation(*validation);
}

MetricsHistory read_metrics(const fs::path& path) {
  MetricsHistory history;
  for_each_line(path, [&](const Line& line) {
    if (!line.members) {
      if (history.unreadable_lines++ == 0) history.first_unreadable_line = line.number;
      return true;
    }
    const Members& m = *line.members;
    const std::string kind = text_of(m, "kind");
    if (kind == "step") history.steps.push_back(step_of(line));
    if (kind == "val") history.validations.push_back(validation_of(line));
    if (kind == "event") history.events.push_back({line.step, text_of(m, "event"), text_of(m, "text")});
    if (kind == "usage")
      history.usage.push_back({line.step, numbers_of(m, "seconds"), numbers_of(m, "peak_bytes"),
                               integer_of(m, "total_peak_bytes").value_or(0)});
    return true;
  });
  return history;
}

MetricsTruncation truncate_metrics(const fs::path& path, std::int64_t step) {
  MetricsTruncation result;
  std::uintmax_t end = 0;
  std::int64_t unreadable = 0;  // since the last line that is kept
  for_each_line(path, [&](const Line& line) {
    if (!line.members) {
      ++unreadable;
      return true;
    }
    if (line.step > step) return false;
    end = line.end;
    ++result.kept_lines;
    result.unreadable_lines += std::exchange(unreadable, 0);
    return true;
  });
  std::error_code error;
  if (!fs::exists(path, error)) return result;
  result.cut = end != fs::file_size(path);
  if (!result.cut) return result;
  fs::resize_file(path, end, error);
  if (error)
    fail(ErrorKind::kResource, "[metrics] {}: truncation failed: {}", path.string(), error.message());
  return result;
}

}  // namespace tandem
