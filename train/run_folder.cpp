// Making, locking, emptying and resuming run folders.
#include "train/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/folders.h"
#include "core/base/log.h"
#include "train/checkpoint.h"
#include "train/json.h"
#include "train/metrics_log.h"
#include "train/tensorboard.h"
#include "train/validation_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "run.lock";
constexpr const char* kConfigName = "config.resolved.yaml";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr int kNumberedAttempts = 1000;

std::vector<fs::path> entries(const fs::path& folder) {
  return list_folder(folder, ErrorKind::kResource, "run");
}

// Greatest NNN of root/<prefix>NNN; 0 if there is none.
int greatest_number(const fs::path& root, const std::string& prefix) {
  std::error_code error;
  int greatest = 0;
  if (!fs::is_directory(root, error)) return 0;
  for (const fs::path& path : entries(root)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix)) continue;
    int number = 0;
    const char* end = name.data() + name.size();
    const auto [stop, problem] = std::from_chars(name.data() + prefix.size(), end, number);
    if (problem == std::errc() && stop == end) greatest = std::max(greatest, number);
  }
  return greatest;
}

fs::path numbered(const fs::path& root, const std::string& prefix, int number) {
  return root / fmt::format("{}{:03d}", prefix, number);
}

void make_folders(const fs::path& path) {
  make_folder("run", path, "Choose a --run-dir that you may write to.");
}

// Makes root/<prefix>NNN with the next number; another process may take one in between.
fs::path make_numbered(const fs::path& root, const std::string& prefix) {
  make_folders(root);
  const int first = greatest_number(root, prefix) + 1;
  for (int number = first; number < first + kNumberedAttempts; ++number) {
    std::error_code error;
    const fs::path path = numbered(root, prefix, number);
    if (fs::create_directory(path, error)) return path;
    if (error) fail(ErrorKind::kResource, "[run] {}: cannot be made: {}", path.string(), error.message());
  }
  fail(ErrorKind::kResource, "[run] {}: got {} taken names in a row from {} on", root.string(),
       kNumberedAttempts, first);
}

bool counts_as_content(const fs::path& path) {
  const std::string name = path.filename().string();
  return name != kLockName && !name.starts_with(kTemporaryPrefix);
}

std::vector<fs::path> content_of(const fs::path& folder) {
  std::vector<fs::path> paths = entries(folder);
  std::erase_if(paths, [](const fs::path& path) { return !counts_as_content(path); });
  return paths;
}

bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kLockName, error) || fs::exists(folder / kConfigName, error);
}

void require_empty(const fs::path& folder, std::string_view purpose) {
  const std::vector<fs::path> content = content_of(folder);
  if (content.empty()) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("[run] {}: got a folder that holds {}{}, expected a new or empty one for {}",
                          folder.string(), content.front().filename().string(),
                          content.size() > 1 ? fmt::format(" and {} more", content.size() - 1) : "", purpose),
              is_run_folder(folder)
                  ? "Give --resume auto to go on with it, --overwrite to start anew (what is there is "
                    "moved aside), or another --run-dir."
                  : "Choose another --run-dir.");
}

void move_to(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  fs::rename(path, folder / path.filename(), error);
  if (error)
    fail(ErrorKind::kResource, "[run] {}: cannot be moved to {}: {}", path.string(), folder.string(),
         error.message());
}

void move_aside(const fs::path& folder) {
  const std::vector<fs::path> content = content_of(folder);
  if (content.empty()) return;
  const fs::path plain = folder.has_filename() ? folder : folder.parent_path();
  const fs::path aside = make_numbered(plain.has_parent_path() ? plain.parent_path() : fs::path("."),
                                       plain.filename().string() + ".old-");
  for (const fs::path& path : content) move_to(path, aside);
  log_warning("[run] {}: what it held was moved to {}", folder.string(), aside.string());
}

void sweep_temporaries(const fs::path& folder) {
  for (const fs::path& path : entries(folder))
    if (path.filename().string().starts_with(kTemporaryPrefix)) remove_file(path);
}

// The folder that the request means. A numbered one is new and empty; `folder` may hold anything.
fs::path choose_folder(const RunFolderRequest& request) {
  std::error_code error;
  if (request.folder) {
    make_folders(*request.folder);
    return *request.folder;
  }
  const std::string prefix = request.name + "-";
  if (request.resume == "auto") {
    const int newest = greatest_number(request.root, prefix);
    return newest > 0 ? numbered(request.root, prefix, newest) : make_numbered(request.root, prefix);
  }
  if (request.resume.empty()) return make_numbered(request.root, prefix);
  const fs::path wanted(request.resume);
  if (fs::is_directory(wanted, error)) return wanted;
  return wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
}

void check_request(const RunFolderRequest& request) {
  std::error_code error;
  if (request.folder && request.folder->empty())
    throw Error(ErrorKind::kUsage, "[run] --run-dir: got an empty name, expected a folder",
                "Leave --run-dir out for the next free one.");
  if (!request.resume.empty() && request.overwrite)
    throw Error(ErrorKind::kUsage, "[run] got both --resume and --overwrite, expected one of them", "");
  if (!request.resume.empty() && request.resume != "auto" && !fs::exists(request.resume, error))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[run] --resume {}: got no such file or folder", request.resume),
                "Give a checkpoint, a run folder, or auto.");
}

}  // namespace

RunFolder::RunFolder(const RunFolderRequest& request) {
  check_request(request);
  path_ = choose_folder(request);
  const bool fresh = request.resume.empty() && !request.overwrite;
  if (!is_run_folder(path_)) require_empty(path_, "a run (no run made this one)");
  lock_ = std::make_unique<FileLock>(path_ / kLockName);
  if (fresh) require_empty(path_, "a new run");
  sweep_temporaries(path_);
  if (request.overwrite) move_aside(path_);
  if (!request.resume.empty()) find_checkpoint(request);
}

void RunFolder::find_checkpoint(const RunFolderRequest& request) {
  std::error_code error;
  if (request.resume != "auto") {
    checkpoint_ = resolve_checkpoint(request.resume);
    const std::int64_t step = verify_checkpoint(*checkpoint_);
    const fs::path parent = checkpoint_->has_parent_path() ? checkpoint_->parent_path() : fs::path(".");
    if (fs::equivalent(parent, path_, error))
      resumed_step_ = step;
    else
      require_empty(path_, "a run that goes on from another folder's checkpoint");
    return;
  }
  const NewestCheckpoint newest = newest_intact(path_);
  for (const CheckpointInfo& info : newest.rejected) log_warning("{} (not used)", info.problem);
  if (!newest.found && !newest.rejected.empty()) resolve_checkpoint(path_);  // throws, with every reason
  if (!newest.found)
    log_info("[run] {}: --resume auto: got no checkpoint there: the run starts anew", path_.string());
  resumed_step_ = newest.found ? newest.found->step : 0;
  if (newest.found) checkpoint_ = newest.found->path;
}

void RunFolder::cut_back(std::int64_t step) const {
  // Intact ones of later steps belong to a continuation that is given up; they must not be taken for this
  // one's.
  std::optional<fs::path> aside;
  for (const CheckpointInfo& info : list_checkpoints(path_)) {
    if (info.step <= step || !info.problem.empty()) continue;
    if (!aside) aside = make_numbered(path_, "superseded-");
    move_to(info.path, *aside);
  }
  if (aside) log_warning("[run] checkpoints after step {} were moved to {}", step, aside->string());
  const MetricsTruncation metrics = truncate_metrics(metrics_path(), step);
  if (metrics.cut) log_warning("[run] metrics.jsonl was cut back to step {}", step);
  if (metrics.unreadable_lines > 0)
    log_warning("[run] metrics.jsonl: got {} that cannot be read, passed over",
                counted(metrics.unreadable_lines, "line"));
  truncate_tensorboard(path_, step);
  truncate_validation(path_, step);
}

void RunFolder::describe(const std::string& config_yaml, const std::string& environment_json) const {
  if (resumed_step_) cut_back(*resumed_step_);
  write_file_atomically(path_ / kConfigName, config_yaml);
  write_file_atomically(path_ / "environment.json", environment_json + "\n");
  add_log_file(log_path());
}

std::string environment_json(const RunEnvironment& e) {
  return JsonObject()
      .add("version", e.version)
      .add("isa", e.isa)
      .add("compute", e.compute)
      .add("device", e.device)
      .add("threads", e.threads)
      .text();
}

std::vector<std::string> environment_differences(const std::string& saved_json,
                                                 const std::string& current_json) {
  const auto saved = parse_json_object(saved_json), current = parse_json_object(current_json);
  if (!saved || !current) return {"the checkpoint does not say where it was made"};
  std::vector<std::string> lines;
  for (const auto& [key, value] : *current) {
    const auto at = saved->find(key);
    const std::string before = at == saved->end() ? "unknown" : at->second;
    if (before != value) lines.push_back(fmt::format("{}: checkpoint {}, now {}", key, before, value));
  }
  return lines;
}

}  // namespace tandem
