// `tandem summary`: the network of a job layer by layer, and what it costs.
#include <fmt/core.h>

#include <memory>

#include "apps/commands.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "data/free_memory.h"
#include "data/split.h"
#include "data/voxel_source.h"
#include "train/memory_estimate.h"
#include "train/model_summary.h"
#include "train/session.h"

namespace tandem {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> channels;
};

void print_rows(const std::vector<SummaryRow>& rows) {
  fmt::print("{:<22} {:<16} {:<28} {:>12} {:>10}\n", "module", "op", "output", "parameters", "MMAC");
  for (const SummaryRow& row : rows)
    fmt::print("{:<22} {:<16} {:<28} {:>12} {:>10}{}\n", row.module, row.op, row.output,
               row.parameters ? std::to_string(row.parameters) : "",
               row.macs > 0 ? fmt::format("{:.1f}", row.macs / 1e6) : "",
               row.training_only ? "  in training only" : "");
}

void print(const ModelSummary& summary, const ParamStore& store, const JobOptions& job,
           const Context& context, const StepMemory& memory) {
  print_rows(summary.rows);
  double macs = 0, training_macs = 0;
  for (const SummaryRow& row : summary.rows) (row.training_only ? training_macs : macs) += row.macs;
  std::int64_t cast = 0, kept = 0;
  for (const ParamSegment& segment : store.segments())
    (segment.region == ParamRegion::kCast ? cast : kept) += segment.shape.numel();
  const std::int64_t samples = job.train.batch_size * job.train.accumulate;
  fmt::print("\nparameters   {} ({} in the compute copy, {} kept in FP32)\n", store.parameter_count(), cast,
             kept);
  fmt::print("forward      {:.2f} GMAC a sample; a training step of {} about {:.1f} GFLOP\n", macs / 1e9,
             counted(samples, "sample"), 3 * 2 * (macs + training_macs) * static_cast<double>(samples) / 1e9);
  fmt::print("compute      {} on {}\n", name(context.compute), name(context.device));
  fmt::print("memory       tensors of one forward pass, measured: {}\n", summary.memory);
  fmt::print(
      "             a training step of batch {} takes about {} from the system\n"
      "             (estimated from two small steps, with rounding and blocks kept for reuse; the peak of\n"
      "             `tandem train --dry-run` counts the step's tensors alone; cases kept in memory come on "
      "top)\n",
      job.train.batch_size, memory_text(memory, job.patch.size, job.train.batch_size));
}

int summarise(const Flags& flags) {
  const JobOptions job = load_job(flags.file, flags.overrides);
  std::int64_t channels = flags.channels.value_or(0);
  if (channels == 0) {
    const std::vector<CaseEntry> cases = training_cases(job.data);
    if (cases.empty())
      throw Error(ErrorKind::kConfig,
                  "[summary] data.train names no case, so the input channels are not known",
                  "Give --channels N.");
    channels = read_case_info(cases.front(), job.data.orientation).channels;
  }
  const StepMemory memory = measure_step_memory(job, channels);
  expect_step_fits(memory, job, free_memory_bytes());  // as training would; before anything is computed
  ModelSession session = make_session(job, channels);
  const auto parameters = session.model->parameters();
  const ParamStore store(parameters, session.context, session.precision);
  const auto& size = job.patch.size;
  const ModelSummary summary =
      summarise_model(*session.model, session.context, {1, channels, size[0], size[1], size[2]});
  print(summary, store, job, session.context, memory);
  return 0;
}

}  // namespace

Action summary_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("FILE", flags->file, "The job file")
      .overrides(flags->overrides)
      .option("--channels", "N", flags->channels,
              "Input channels; default: those of the first training case");
  return [flags] { return summarise(*flags); };
}

}  // namespace tandem
