// Comparison of two jobs key by key.
#include "train/resume.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr auto kWithoutEffect = std::to_array<std::string_view>(
    {"name", "threads", "log.", "checkpoint.", "validate.", "predict.", "select.", "data.workers",
     "data.prefetch", "data.cache", "data.validation"});

// Full key -> value in one line, for every value below `node`.
void flatten(const ConfigNode& node, const std::string& path, std::map<std::string, std::string>& values) {
  if (!node.is_map() || node.entries().empty()) {
    values[path] = to_flow_yaml(node);
    return;
  }
  for (const ConfigEntry& entry : node.entries())
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, values);
}

std::map<std::string, std::string> values_of(JobOptions& job) {
  std::map<std::string, std::string> values;
  flatten(fields(job).emit(), "", values);
  return values;
}

bool has_effect(const std::string& key) {
  return std::ranges::none_of(kWithoutEffect,
                              [&](std::string_view prefix) { return key.starts_with(prefix); });
}

}  // namespace

std::optional<JobOptions> saved_job(const CheckpointContent& content) {
  try {
    JobOptions saved;
    parse_options(parse_yaml_text(content.config_yaml, "the checkpoint's job"), fields(saved));
    return saved;
  } catch (const Error& error) {
    log_warning("resume: {}", error.what());
    return std::nullopt;
  }
}

std::vector<std::string> job_changes(JobOptions saved, JobOptions now) {
  const auto before = values_of(saved), after = values_of(now);
  std::vector<std::string> lines;
  for (const auto& [key, value] : after) {
    const auto it = before.find(key);
    const std::string old = it == before.end() ? "not set" : it->second;
    if (old != value && has_effect(key))
      lines.push_back(fmt::format("{}: {} here, {} in the checkpoint", key, value, old));
  }
  return lines;
}

}  // namespace tandem
