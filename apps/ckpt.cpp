// `tandem ckpt ls | show | verify | prune | diff`: checkpoints without the job that made them.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "train/checkpoint.h"
#include "train/json.h"
#include "train/metrics_log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string path, other;
  bool json = false, config = false, dry_run = false;
  std::optional<std::int64_t> keep_last, keep_best;
};

std::string pointers_to(const fs::path& path) {
  std::string text;
  for (const char* pointer : {"latest", "best"})
    if (const auto target = read_pointer(path.parent_path(), pointer);
        target && target->filename() == path.filename())
      text += (text.empty() ? "" : ", ") + std::string(pointer);
  return text;
}

std::vector<CheckpointInfo> list_folder(const std::string& folder, bool verify) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[ckpt] {}: got no such folder, expected a run folder", folder));
  return list_checkpoints(folder, verify);
}

int list(const Flags& flags) {
  const std::vector<CheckpointInfo> infos = list_folder(flags.path, false);
  if (flags.json) {
    std::vector<JsonObject> rows;
    for (const CheckpointInfo& info : infos)
      rows.push_back(JsonObject()
                         .add("file", info.path.filename().string())
                         .add("step", info.step)
                         .add("bytes", info.bytes)
                         .add("pointers", pointers_to(info.path))
                         .add("problem", info.problem));
    fmt::print("{}\n", JsonObject().add("folder", flags.path).add("checkpoints", rows).text());
    return 0;
  }
  if (infos.empty()) fmt::print("{}: no checkpoints\n", flags.path);
  for (const CheckpointInfo& info : infos) {
    const std::string pointers = pointers_to(info.path);
    fmt::print("{:<22} {:>10.1f} MB  {}{}\n", info.path.filename().string(),
               static_cast<double>(info.bytes) / 1e6, pointers, info.problem);
  }
  return 0;
}

struct Group {
  std::int64_t tensors = 0, values = 0;
};

std::map<std::string, Group> groups_of(const CheckpointContent& content) {
  std::map<std::string, Group> groups;
  for (const NamedTensor& named : content.tensors) {
    const std::string& name = named.name;
    // "optimizer/exp_avg/..." is a group of its own, "model/enc0.conv1.weight" belongs to "model".
    Group& group = groups[name.substr(0, name.rfind('/'))];
    group.tensors += 1;
    group.values += named.tensor.numel();
  }
  return groups;
}

void show_json(const fs::path& path, const CheckpointContent& content) {
  std::vector<JsonObject> tensors;
  for (const NamedTensor& named : content.tensors) {
    const auto sizes = named.tensor.shape().sizes();
    tensors.push_back(JsonObject()
                          .add("name", named.name)
                          .add("dtype", name(named.tensor.dtype()))
                          .add("shape", std::vector<std::int64_t>(sizes.begin(), sizes.end())));
  }
  const StepState& state = content.state;
  fmt::print("{}\n", JsonObject()
                         .add("file", path.string())
                         .add("step", content.step)
                         .add("total_steps", content.total_steps)
                         .add("epoch", content.epoch)
                         .add("applied", state.applied)
                         .add("skipped_overflow", state.skipped_overflow)
                         .add("skipped_forward", state.skipped_forward)
                         .add("last_event", event_name(state.event))
                         .add("scale", state.scale)
                         .add("lr", state.lr)
                         .add("environment", content.environment_json)
                         .add("tensors", tensors)
                         .text());
}

void show_text(const fs::path& path, const CheckpointContent& content) {
  const StepState& state = content.state;
  fmt::print("{}\nstep         {} of {}, epoch {}\n", path.string(), content.step, content.total_steps,
             content.epoch);
  fmt::print("steps        {} applied, {} skipped for overflow, {} for a loss that was not finite\n",
             state.applied, state.skipped_overflow, state.skipped_forward);
  fmt::print("loss scale   {}, {} good steps since it changed\nlr           {}\n", state.scale,
             state.good_steps, state.lr);
  for (const RankedCheckpoint& entry : content.best)
    fmt::print("best         step {}: {}\n", entry.step, entry.value);
  fmt::print("made by      {}\n", content.environment_json);
  for (const auto& [name, group] : groups_of(content))
    fmt::print("{:<28} {:>5} tensors {:>12} values\n", name, group.tensors, group.values);
  for (const NamedTensor& named : content.tensors)
    if (named.name.starts_with("model/")) fmt::print("  {}  {}\n", named.name, to_string(named.tensor));
}

int show(const Flags& flags) {
  const fs::path path = resolve_checkpoint(flags.path);
  const CheckpointContent content = load_checkpoint(path);
  if (flags.config)
    fmt::print("{}", content.config_yaml);
  else if (flags.json)
    show_json(path, content);
  else
    show_text(path, content);
  return 0;
}

int verify(const Flags& flags) {
  std::error_code error;
  if (!fs::is_directory(flags.path, error)) {
    fmt::print("{}: intact, step {}\n", flags.path, verify_checkpoint(flags.path));
    return 0;
  }
  std::int64_t bad = 0;
  const std::vector<CheckpointInfo> infos = list_folder(flags.path, true);
  for (const CheckpointInfo& info : infos) {
    bad += info.problem.empty() ? 0 : 1;
    fmt::print("{}: {}\n", info.path.string(), info.problem.empty() ? "intact" : info.problem);
  }
  fmt::print("{} intact, {} damaged\n", static_cast<std::int64_t>(infos.size()) - bad, bad);
  return bad == 0 && !infos.empty() ? 0 : exit_code(ErrorKind::kCheckpoint);
}

int prune(const Flags& flags) {
  PruneOptions options{.keep_last = flags.keep_last.value_or(1), .dry_run = flags.dry_run};
  if (flags.keep_best) options.keep_best = *flags.keep_best;
  if (options.keep_last < 1)
    throw Error(ErrorKind::kUsage,
                fmt::format("[ckpt] --keep-last: got {}, expected >= 1", options.keep_last));
  if (options.keep_best < 0)
    throw Error(ErrorKind::kUsage,
                fmt::format("[ckpt] --keep-best: got {}, expected >= 0", options.keep_best));
  list_folder(flags.path, false);
  // Not while a run trains there.
  std::optional<FileLock> lock;
  std::error_code error;
  if (const fs::path held = fs::path(flags.path) / "run.lock"; fs::exists(held, error)) lock.emplace(held);
  std::int64_t bytes = 0;
  const std::vector<CheckpointInfo> deleted = prune_checkpoints(flags.path, options);
  for (const CheckpointInfo& info : deleted) {
    fmt::print("{}\n", info.path.string());
    bytes += info.bytes;
  }
  fmt::print("{} checkpoints, {:.1f} MB {}\n", deleted.size(), static_cast<double>(bytes) / 1e6,
             flags.dry_run ? "would be deleted" : "deleted");
  return 0;
}

int diff(const Flags& flags) {
  const fs::path a = resolve_checkpoint(flags.path), b = resolve_checkpoint(flags.other);
  const std::vector<CheckpointDifference> all = all_differences(load_checkpoint(a), load_checkpoint(b));
  if (all.empty()) {
    fmt::print("identical\n");
    return 0;
  }
  constexpr std::size_t kShown = 40;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i)
    fmt::print("{}: {}\n", all[i].name, all[i].text);
  if (all.size() > kShown) fmt::print("and {} more\n", all.size() - kShown);
  fmt::print("{} differ\n  first   {}\n  second  {}\n", all.size(), a.string(), b.string());
  return exit_code(ErrorKind::kCheckpoint);
}

}  // namespace

Action ckpt_ls_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("DIR", flags->path, "A run folder").flag("--json", flags->json, "Print JSON");
  return [flags] { return list(*flags); };
}

Action ckpt_show_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("FILE", flags->path, "A checkpoint, or a run folder for its newest intact one")
      .flag("--json", flags->json, "Print JSON")
      .flag("--config", flags->config, "Print only the job it was made with, as YAML");
  return [flags] { return show(*flags); };
}

Action ckpt_verify_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("PATH", flags->path, "A checkpoint, or a run folder for all of its checkpoints");
  return [flags] { return verify(*flags); };
}

Action ckpt_prune_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("DIR", flags->path, "A run folder; what `latest` and `best` name always stays")
      .option("--keep-last", "N", flags->keep_last, "Newest intact checkpoints that stay; default 1")
      .option("--keep-best", "N", flags->keep_best,
              "Best checkpoints that stay; default: all that the run kept")
      .flag("--dry-run", flags->dry_run, "Only say what would be deleted");
  return [flags] { return prune(*flags); };
}

Action ckpt_diff_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("A", flags->path, "A checkpoint, or a run folder for its newest intact one")
      .positional("B", flags->other, "Another one");
  return [flags] { return diff(*flags); };
}

}  // namespace tandem
