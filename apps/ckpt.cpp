// `tandem ckpt ls | show | verify | prune | diff`: checkpoints without the job that made them.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "core/base/counted.h"
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

// "runs/a-001" of the sub-folders of `folder` that hold checkpoints; "" if none does.
std::string run_below(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& path : list_folder(folder, ErrorKind::kCheckpoint, "ckpt"))
    if (fs::is_directory(path, error) && !list_checkpoints(path).empty()) return path.string();
  return "";
}

// What an empty list means: a run that has saved nothing yet, or another folder.
void expect_run_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "run.lock", error) || fs::exists(folder / "config.resolved.yaml", error)) return;
  const std::vector<fs::path> entries = list_folder(folder, ErrorKind::kCheckpoint, "ckpt");
  const std::string found =
      entries.empty() ? "an empty folder"
                      : fmt::format("a folder of {} ({}{}) without step-*.h5 or config.resolved.yaml",
                                    counted(entries.size(), "entry", "entries"),
                                    entries.front().filename().string(), entries.size() > 1 ? ", ..." : "");
  const std::string run = run_below(folder);
  throw Error(
      ErrorKind::kCheckpoint, fmt::format("[ckpt] {}: got {}, expected a run folder", folder.string(), found),
      run.empty() ? "Name the folder that `tandem train` said as \"run folder\", such as runs/NAME-001."
                  : fmt::format("Name a run in it, such as {}.", run));
}

std::vector<CheckpointInfo> list_run(const std::string& folder, bool verify) {
  std::error_code error;
  if (!fs::exists(folder, error))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[ckpt] {}: got no such folder, expected a run folder", folder),
                "Name the folder that `tandem train` said as \"run folder\", such as runs/NAME-001.");
  if (!fs::is_directory(folder, error))
    throw Error(ErrorKind::kCheckpoint, fmt::format("[ckpt] {}: got a file, expected a run folder", folder),
                fmt::format("One file: `tandem ckpt verify {0}` says if it is intact, `tandem ckpt show {0}` "
                            "what it holds.",
                            folder));
  std::vector<CheckpointInfo> infos = list_checkpoints(folder, verify);
  if (infos.empty()) expect_run_folder(folder);
  return infos;
}

// The problem of a file whose name stands before it.
std::string short_problem(const CheckpointInfo& info) {
  const std::string named = fmt::format("[checkpoint] {}: ", info.path.string());
  return info.problem.starts_with(named) ? info.problem.substr(named.size()) : info.problem;
}

// What to do about damaged files of a run.
std::string advice(const fs::path& folder, const std::vector<CheckpointInfo>& infos) {
  const auto intact = std::ranges::find_if(infos, [](const CheckpointInfo& i) { return i.problem.empty(); });
  if (intact == infos.end())
    return fmt::format("no checkpoint of {} can be used: train anew, or bring back a copy of it",
                       folder.string());
  return fmt::format(
      "damaged files cannot be repaired and are passed over: --resume auto goes on from step {}; delete them "
      "when you have looked at them",
      intact->step);
}

int list(const Flags& flags) {
  const std::vector<CheckpointInfo> infos = list_run(flags.path, false);
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
  if (infos.empty())
    fmt::print("{}: no checkpoints: got no step-*.h5 in this run folder; the run saved none yet\n",
               flags.path);
  for (const CheckpointInfo& info : infos) {
    const std::string pointers = pointers_to(info.path);
    fmt::print("{:<22} {:>10.1f} MB  {}{}\n", info.path.filename().string(),
               static_cast<double>(info.bytes) / 1e6, pointers,
               info.problem.empty()
                   ? ""
                   : fmt::format("{}damaged: {}", pointers.empty() ? "" : "; ", short_problem(info)));
  }
  if (std::ranges::any_of(infos, [](const CheckpointInfo& info) { return !info.problem.empty(); }))
    fmt::print("{}\n`tandem ckpt verify {}` reads each file whole\n", advice(flags.path, infos), flags.path);
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
  fmt::print("loss scale   {}, {} since it changed\nlr           {}\n", state.scale,
             counted(state.good_steps, "good step"), state.lr);
  for (const RankedCheckpoint& entry : content.best)
    fmt::print("best         step {}: {}\n", entry.step, entry.value);
  fmt::print("made by      {}\n", content.environment_json);
  for (const auto& [name, group] : groups_of(content))
    fmt::print("{:<28} {:>13} {:>19}\n", name, counted(group.tensors, "tensor"),
               counted(group.values, "value"));
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

int verify_file(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("[ckpt] {}: got no such file or folder, expected a checkpoint or a run folder", path),
        "`tandem ckpt ls RUN` lists the checkpoints of a run.");
  try {
    fmt::print("{}: intact, step {}\n", path, verify_checkpoint(path));
    return 0;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint || !error.hint().empty()) throw;
    throw Error(error.kind(), error.text(),
                "It cannot be repaired: use another one (`tandem ckpt ls RUN`), or a copy of it.");
  }
}

int verify(const Flags& flags) {
  std::error_code error;
  if (!fs::is_directory(flags.path, error)) {
    return verify_file(flags.path);
  }
  std::int64_t bad = 0;
  const std::vector<CheckpointInfo> infos = list_run(flags.path, true);
  for (const CheckpointInfo& info : infos) {
    bad += info.problem.empty() ? 0 : 1;
    fmt::print("{}: {}\n", info.path.string(),
               info.problem.empty() ? "intact" : "damaged: " + short_problem(info));
  }
  if (infos.empty())
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[ckpt] {}: got no step-*.h5 in this run folder, expected a checkpoint to verify",
                            flags.path),
                "The run saved none yet.");
  fmt::print("{} intact, {} damaged\n", static_cast<std::int64_t>(infos.size()) - bad, bad);
  if (bad == 0) return 0;
  fmt::print("{}\n", advice(flags.path, infos));
  return exit_code(ErrorKind::kCheckpoint);
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
  list_run(flags.path, false);
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
  fmt::print("{}, {:.1f} MB {}\n", counted(deleted.size(), "checkpoint"), static_cast<double>(bytes) / 1e6,
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
  fmt::print("{}\n  first   {}\n  second  {}\n", counted(all.size(), "difference"), a.string(), b.string());
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
