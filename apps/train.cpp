// `tandem train`: runs a job.
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "train/job_check.h"
#include "train/json.h"
#include "train/overfit.h"
#include "train/run.h"

namespace tandem {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> overrides;
  std::optional<std::string> run_dir, resume, init_from, device;
  std::optional<std::int64_t> threads, overfit;
  bool dry_run = false, overwrite = false, no_progress = false;
};

int train(const Flags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (flags.device) overrides.push_back("device=" + *flags.device);
  if (flags.threads) overrides.push_back("threads=" + std::to_string(*flags.threads));
  if (flags.init_from) overrides.push_back("model.init_from=" + json_quoted(*flags.init_from));
  if (flags.resume && flags.resume->starts_with('-'))
    throw Error(ErrorKind::kUsage,
                fmt::format("[train] --resume: got '{}', expected auto or a path", *flags.resume),
                "For example: --resume auto.");
  auto [job, warnings] = load_checked_job(flags.file, overrides);
  for (const std::string& warning : warnings) log_warning("{}", warning);
  if (flags.overfit) {
    if (*flags.overfit < 1 || *flags.overfit > 4096)
      fail(ErrorKind::kUsage, "[train] --overfit: got {}, expected 1 to 4096 patches", *flags.overfit);
    if (flags.resume)
      fail(ErrorKind::kUsage, "[train] got both --overfit and --resume, expected one of them");
    job = overfit_job(std::move(job));
  }
  RunRequest request{.dry_run = flags.dry_run, .progress = !flags.no_progress, .overfit = flags.overfit};
  request.folder.name = job.name;
  request.folder.resume = flags.resume.value_or("");
  request.folder.overwrite = flags.overwrite;
  if (flags.run_dir) request.folder.folder = *flags.run_dir;
  run_training(job, request);
  return 0;
}

}  // namespace

Action train_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("FILE", flags->file, "The job file")
      .overrides(flags->overrides)
      .option("--run-dir", "D", flags->run_dir, "Run folder; default: the next free runs/<name>-NNN")
      .option("--resume", "auto|PATH", flags->resume,
              "Go on from the newest intact checkpoint (auto: start anew if there is none), or from PATH")
      .option("--init-from", "PATH", flags->init_from,
              "Start with the weights of a checkpoint, or of a run folder's newest one: model.init_from")
      .option("--device", "DEVICE", flags->device, "auto, cpu, cuda or cuda:N; beats the job file")
      .option("--threads", "N", flags->threads, "Compute threads; beats the job file")
      .flag("--dry-run", flags->dry_run, "Build everything, take two steps, write nothing")
      .option("--overfit", "N", flags->overfit,
              "Train on N fixed patches without augmentation: a model that works learns them by heart")
      .flag("--overwrite", flags->overwrite,
            "Use a run folder that is not empty; what it holds is moved aside")
      .flag("--no-progress", flags->no_progress, "No progress line");
  return [flags] { return train(*flags); };
}

}  // namespace tandem
