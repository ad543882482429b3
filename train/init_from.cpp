// Matching of names, and the report.
#include "train/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr std::string_view kGroups[] = {"model/", "buffer/"}, kMean = "ema/";

// The group's prefix, or "" for tensors of other groups.
std::string_view group_of(std::string_view name) {
  for (const std::string_view group : kGroups)
    if (name.starts_with(group)) return group;
  return "";
}

std::string list_text(const std::string& what, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  if (names.empty()) return "";
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  const std::string more = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
  return fmt::format("\n  {} {}: {}{}", names.size(), what, fmt::join(shown, ", "), more);
}

// Tensors of the two groups under their names in the model; for a weight that has a running mean, the mean.
std::map<std::string, const Tensor*> renamed_tensors(const CheckpointContent& content,
                                                     const std::vector<RenameRule>& rules) {
  std::map<std::string, const Tensor*> tensors;
  for (const NamedTensor& tensor : content.tensors) {
    const std::string group(group_of(tensor.name));
    if (group.empty()) continue;
    const std::string plain = tensor.name.substr(group.size()), name = group + renamed(plain, rules);
    const Tensor* mean = group == kGroups[0] ? content.find(std::string(kMean) + plain) : nullptr;
    if (!tensors.emplace(name, mean != nullptr ? mean : &tensor.tensor).second)
      throw Error(
          ErrorKind::kCheckpoint,
          fmt::format("[init] model.init_rename: two tensors of the checkpoint become '{}', expected one",
                      name.substr(group.size())),
          "Make the patterns narrower.");
  }
  return tensors;
}

}  // namespace

std::optional<RenameRule> rename_rule(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto stars = [](std::string_view part) { return std::count(part.begin(), part.end(), '*'); };
  const bool valid = equals != std::string::npos && equals > 0 && equals + 1 < text.size() &&
                     text.find('=', equals + 1) == std::string::npos && stars(text.substr(0, equals)) <= 1 &&
                     stars(text.substr(equals + 1)) <= stars(text.substr(0, equals));
  return valid ? std::optional(RenameRule{text.substr(0, equals), text.substr(equals + 1)}) : std::nullopt;
}

std::vector<RenameRule> parse_rename_rules(const std::vector<std::string>& texts) {
  std::vector<RenameRule> rules;
  for (const std::string& text : texts) {
    const std::optional<RenameRule> rule = rename_rule(text);
    if (!rule) fail(ErrorKind::kConfig, "[init] model.init_rename: got '{}', expected {}", text, kRenameForm);
    rules.push_back(*rule);
  }
  return rules;
}

std::string renamed(const std::string& name, const std::vector<RenameRule>& rules) {
  for (const auto& [from, to] : rules) {
    const std::size_t star = from.find('*');
    if (star == std::string::npos) {
      if (name == from) return to;
      continue;
    }
    const std::string head = from.substr(0, star), tail = from.substr(star + 1);
    if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) continue;
    std::string result = to;
    if (const std::size_t at = to.find('*'); at != std::string::npos)
      result.replace(at, 1, name.substr(head.size(), name.size() - head.size() - tail.size()));
    return result;
  }
  return name;
}

std::string InitReport::text() const {
  const std::size_t all = taken.size() + missing.size() + different.size();
  return fmt::format("{} of {} taken", taken.size(), counted(all, "tensor")) +
         list_text("not in the checkpoint, left as initialised", missing) +
         list_text("of another shape, left as initialised", different) +
         list_text("of the checkpoint not used", unused);
}

InitReport initialise_weights(const CheckpointContent& content, std::span<const NamedTensor> targets,
                              const std::vector<RenameRule>& rules, bool strict) {
  std::map<std::string, const Tensor*> tensors = renamed_tensors(content, rules);
  InitReport report;
  CheckpointContent fitting;
  std::vector<NamedTensor> filled;
  for (const NamedTensor& target : targets) {
    const std::string name = target.name.substr(group_of(target.name).size());
    const auto found = tensors.find(target.name);
    if (found == tensors.end()) {
      report.missing.push_back(name);
      continue;
    }
    const Tensor& value = *found->second;
    if (value.shape() != target.tensor.shape() || value.dtype() != target.tensor.dtype()) {
      report.different.push_back(
          fmt::format("{} {} here, {} there", name, to_string(target.tensor), to_string(value)));
    } else {
      report.taken.push_back(name);
      fitting.tensors.push_back({target.name, value});
      filled.push_back(target);
    }
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors)
    report.unused.push_back(fmt::format("{} {}", name.substr(group_of(name).size()), to_string(*tensor)));
  if (report.taken.empty() || (strict && !report.complete()))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[init] the checkpoint does not fit the model: {}", report.text()),
                strict && !report.taken.empty() ? "Set model.init_strict: false to take what fits."
                                                : "Map its names with model.init_rename: [\"FROM*=TO*\"].");
  restore_tensors(fitting, filled);
  return report;
}

void initialise_from(const ModelOptions& options, Trainer& trainer) {
  if (!options.init_from) return;
  const std::vector<RenameRule> rules = parse_rename_rules(options.init_rename);
  const std::filesystem::path path = resolve_checkpoint(*options.init_from);
  std::vector<NamedTensor> targets;
  for (const ParamSegment& segment : trainer.params().segments())
    targets.push_back(
        {"model/" + segment.name, ParamStore::view(segment, trainer.params().region(segment.region).master)});
  for (const NamedTensor& buffer : buffer_tensors(trainer.model(), trainer.context().device))
    targets.push_back(buffer);
  const InitReport report = initialise_weights(load_checkpoint(path), targets, rules, options.init_strict);
  trainer.params().refresh_copies();
  if (report.complete())
    log_info("weights of {}: {}", path.string(), report.text());
  else
    log_warning("weights of {}: {}", path.string(), report.text());
}

}  // namespace tandem
