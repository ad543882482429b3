// `tandem config check | show | docs | schema`: job files without running them.
#include <fmt/core.h>

#include <memory>

#include "apps/commands.h"
#include "core/base/log.h"
#include "core/config/fields.h"
#include "core/config/load.h"
#include "core/config/schema.h"
#include "train/job_check.h"

namespace tandem {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> overrides;
  bool origin = false;
};

std::shared_ptr<Flags> declare_job(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("FILE", flags->file, "The job file").overrides(flags->overrides);
  return flags;
}

}  // namespace

Action config_check_command(Arguments& arguments) {
  const auto flags = declare_job(arguments);
  return [flags] {
    const CheckedJob checked = load_checked_job(flags->file, flags->overrides);
    for (const std::string& warning : checked.warnings) log_warning("{}", warning);
    const std::size_t count = checked.warnings.size();
    fmt::print("{}: no errors{}\n", flags->file,
               count == 0 ? "" : fmt::format(", {} warning{}", count, count == 1 ? "" : "s"));
    return 0;
  };
}

Action config_show_command(Arguments& arguments) {
  const auto flags = declare_job(arguments);
  arguments.flag("--origin", flags->origin, "Say behind each value where it was written");
  return [flags] {
    JobOptions job = load_job(flags->file, flags->overrides);
    if (!flags->origin) {
      fmt::print("{}", emit_yaml(fields(job)));
      return 0;
    }
    const ConfigNode written = load_config(flags->file, flags->overrides);
    fmt::print("{}", to_yaml(fields(job).emit(), &written));
    return 0;
  };
}

Action config_schema_command(Arguments&) {
  return [] {
    JobOptions job;
    fmt::print("{}", describe_json_schema(fields(job), "Tandem job file"));
    return 0;
  };
}

Action config_docs_command(Arguments&) {
  return [] {
    JobOptions job;
    fmt::print("{}", describe_markdown(fields(job)));
    return 0;
  };
}

}  // namespace tandem
