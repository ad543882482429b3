// `tandem summary`: the network of a job layer by layer, and what it costs.
#include <fmt/core.h>

#include <map>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "data/free_memory.h"
#include "data/split.h"
#include "data/voxel_source.h"
#include "train/memory_estimate.h"
#include "train/run_report.h"
#include "train/session.h"

namespace tandem {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> channels;
};

struct Row {
  std::string module, op, output;
  std::int64_t parameters = 0;
  double macs = 0;
};

// Multiply-accumulates of one forward op with the weight `w`: each output position of a convolution or matmul
// uses the whole weight, of a transposed convolution with kernel = stride one tap of it.
double macs_of(std::string_view op, const Tensor& output, const Shape& weight) {
  const double positions = static_cast<double>(output.rows());
  if (op == "conv_transpose") return positions * static_cast<double>(weight[0] * weight[1]);
  return positions * static_cast<double>(weight.numel());
}

class Summary {
 public:
  Summary(ModelSession& session, const JobOptions& job, std::int64_t channels)
      : named_(session.model->parameters()), store_(named_, session.context, session.precision) {
    for (const NamedParameter& p : named_) by_module_[p.name.substr(0, p.name.rfind('.'))].push_back(p);
    session.context.training = false;
    Tape tape(session.context, false);
    tape.observe([this](std::string_view op, const std::string& module, const Tensor& value) {
      add(op, module, value);
    });
    const auto& size = job.patch.size;
    const Shape shape{1, channels, size[0], size[1], size[2]};
    const Tensor image = Tensor::zeros(shape, session.context.compute, session.context.device);
    (*session.model)(tape.constant(image));
  }

  void print(const JobOptions& job, const ModelSession& session, const StepMemory& memory) const;

 private:
  void add(std::string_view op, const std::string& module, const Tensor& value) {
    Row row{module, std::string(op), to_string(value)};
    if (const auto it = by_module_.find(module); it != by_module_.end())
      for (const NamedParameter& p : it->second) {
        if (counted_.insert({p.name, true}).second) row.parameters += p.parameter->shape().numel();
        if (p.parameter->shape().rank() > 1) row.macs = macs_of(op, value, p.parameter->shape());
      }
    rows_.push_back(std::move(row));
  }

  std::vector<NamedParameter> named_;
  ParamStore store_;
  std::map<std::string, std::vector<NamedParameter>> by_module_;
  std::map<std::string, bool> counted_;
  std::vector<Row> rows_;
};

void Summary::print(const JobOptions& job, const ModelSession& session, const StepMemory& memory) const {
  fmt::print("{:<22} {:<16} {:<28} {:>12} {:>10}\n", "module", "op", "output", "parameters", "MMAC");
  double macs = 0;
  for (const Row& row : rows_) {
    macs += row.macs;
    fmt::print("{:<22} {:<16} {:<28} {:>12} {:>10}\n", row.module, row.op, row.output,
               row.parameters ? std::to_string(row.parameters) : "",
               row.macs > 0 ? fmt::format("{:.1f}", row.macs / 1e6) : "");
  }
  std::int64_t cast = 0, kept = 0;
  for (const ParamSegment& segment : store_.segments())
    (segment.region == ParamRegion::kCast ? cast : kept) += segment.shape.numel();
  const auto samples = static_cast<double>(job.train.batch_size * job.train.accumulate);
  fmt::print("\nparameters   {} ({} in the compute copy, {} kept in FP32)\n", store_.parameter_count(), cast,
             kept);
  fmt::print("forward      {:.2f} GMAC a sample; a training step of {} samples about {:.1f} GFLOP\n",
             macs / 1e9, samples, 3 * 2 * macs * samples / 1e9);
  fmt::print("compute      {} on {}\n", name(session.context.compute), name(session.context.device));
  fmt::print("memory       forward of one sample peaks at {}\n", memory_text(session.context.device));
  fmt::print("             a training step of batch {} takes about {}\n", job.train.batch_size,
             memory_text(memory, job.patch.size, job.train.batch_size));
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
  Summary(session, job, channels).print(job, session, memory);
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
