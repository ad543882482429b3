// `tandem report`: makes report.html of a run again.
#include "train/report.h"

#include <fmt/core.h>

#include <memory>

#include "apps/commands.h"

namespace tandem {
namespace {

struct Flags {
  std::string run, output;
};

}  // namespace

Action report_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("RUN", flags->run, "Run folder")
      .option("--output", "FILE", flags->output, "Where to write it; default: report.html in the run folder");
  return [flags] {
    fmt::print("{}\n", write_report(flags->run, flags->output).string());
    return 0;
  };
}

}  // namespace tandem
