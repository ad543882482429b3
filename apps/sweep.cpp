// `tandem sweep`: one `tandem train` after the other over the points of a sweep, each a process of its own,
// so that one that dies takes nothing else with it.
#include "train/sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "train/job_check.h"
#include "train/signals.h"

extern "C" char** environ;

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string file;
  std::vector<std::string> overrides, grids, runs;
  std::optional<std::string> folder;
  bool dry_run = false;
};

// Exit status of `words`, run as this program with its output in `output`; 128 + n if signal n ended it. A
// stop signal to the sweep is passed on as SIGTERM: the run saves a checkpoint and exits with 75.
int run_train(std::vector<std::string> words, const fs::path& output, const StopSignals& signals) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;  // a group of its own: Ctrl-C reaches the sweep, which passes it on once
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    fail(ErrorKind::kResource, "[sweep] {}: a run cannot be started: {}", output.string(),
         std::strerror(error));
  bool told = false;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) fail(ErrorKind::kResource, "[sweep] waitpid: {}", std::strerror(errno));
    if (signals.requested() && !told) {
      ::kill(child, SIGTERM);
      told = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What all runs share, as YAML: the resolved job, or, where it needs what the runs add, the file's own keys.
std::string common_job(const Flags& flags) {
  const ConfigNode root = load_config(flags.file, flags.overrides);
  JobOptions job;
  ErrorList errors;
  read_job(root, job, errors);
  return errors.empty() ? emit_yaml(fields(job)) : to_yaml(root);
}

class Sweep {
 public:
  Sweep(const Flags& flags, std::vector<Overrides> points)
      : flags_(flags),
        points_(std::move(points)),
        folder_(flags.folder.value_or("runs/" + fs::path(flags.file).stem().string() + "-sweep")) {}

  int run() {
    SweepRecord record(folder_, fs::absolute(flags_.file).lexically_normal().string(), flags_.overrides,
                       common_job(flags_));
    const StopSignals signals;
    for (std::size_t i = 0; i < points_.size() && !signals.requested(); ++i)
      results_.push_back(attempt(fmt::format("{:03}", i + 1), points_[i], record, signals));
    write_file_atomically(folder_ / "sweep.csv", sweep_csv(results_));
    fmt::print("\n{}\n{}\n", sweep_table(results_), (folder_ / "sweep.csv").string());
    if (signals.requested())
      throw Error(ErrorKind::kStopped,
                  fmt::format("[sweep] stopped by {} after {} of {} runs", signals.name(), results_.size(),
                              points_.size()),
                  "Go on with the same command.");
    for (const SweepResult& result : results_)
      if (!result.done()) return result.exit_code;
    return 0;
  }

 private:
  SweepResult attempt(const std::string& name, const Overrides& point, SweepRecord& record,
                      const StopSignals& signals) {
    SweepResult result{.run = name, .overrides = point};
    const auto before = record.find(name, point);
    if (before && before->done()) {
      result = *before;
    } else {
      std::vector<std::string> words{"tandem", "train", flags_.file};
      words.insert(words.end(), flags_.overrides.begin(), flags_.overrides.end());
      words.insert(words.end(), point.begin(), point.end());
      for (const char* word : {"--run-dir", "", "--resume", "auto", "--no-progress"})
        words.emplace_back(word);
      words[words.size() - 4] = (folder_ / name).string();
      const auto start = std::chrono::steady_clock::now();
      result.exit_code = run_train(std::move(words), folder_ / (name + ".out"), signals);
      result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      record.add(result);
    }
    read_scores(folder_ / name, result);
    fmt::print("{}: {}{}\n", name, fmt::join(point, " "),
               before && before->done() ? ": done before"
               : result.done()          ? ": done"
                                        : fmt::format(": exit code {}, see {}", result.exit_code,
                                                      (folder_ / (name + ".out")).string()));
    std::fflush(stdout);
    return result;
  }

  const Flags& flags_;
  const std::vector<Overrides> points_;
  const fs::path folder_;
  std::vector<SweepResult> results_;
};

// What is wrong with the last run must not be found after a night.
void check_points(const Flags& flags, const std::vector<Overrides>& points) {
  std::string faults;
  std::size_t count = 0;
  ErrorKind kind = ErrorKind::kConfig;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<std::string> all = flags.overrides;
    all.insert(all.end(), points[i].begin(), points[i].end());
    try {
      load_checked_job(flags.file, all);
    } catch (const Error& error) {
      kind = count++ == 0 || kind == error.kind() ? error.kind() : ErrorKind::kConfig;
      faults += fmt::format("{}[sweep] run {:03}: {}\n{}", faults.empty() ? "" : "error: ", i + 1,
                            fmt::join(points[i], " "), error.what());
      if (!faults.ends_with('\n')) faults += '\n';
    }
  }
  if (count > 0)
    throw Error(
        kind, fmt::format("{}{} of {} runs cannot start, none was started\n", faults, count, points.size()));
}

int sweep(const Flags& flags) {
  std::vector<Overrides> points = sweep_points(flags.grids, flags.runs);
  check_points(flags, points);
  if (!flags.dry_run) return Sweep(flags, std::move(points)).run();
  for (std::size_t i = 0; i < points.size(); ++i) fmt::print("{:03}: {}\n", i + 1, fmt::join(points[i], " "));
  return 0;
}

}  // namespace

Action sweep_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("FILE", flags->file, "The job file")
      .overrides(flags->overrides)
      .option("--grid", "KEY=[VALUE,...]", flags->grids,
              "Values of a key; of several grids every combination")
      .option("--run", "'KEY=VALUE ...'", flags->runs, "One more run with these overrides")
      .option("--sweep-dir", "D", flags->folder,
              "Folder of the runs 001, 002, ... and of sweep.csv; default: runs/<name of FILE>-sweep. Runs "
              "that are "
              "done there are not repeated")
      .flag("--dry-run", flags->dry_run, "Check and list the runs, start none");
  return [flags] { return sweep(*flags); };
}

}  // namespace tandem
