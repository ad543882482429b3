// The table of commands.
#include "apps/commands.h"

#include <array>

namespace tandem {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"config check", "Check a job file; every error with its line",
     "tandem config check configs/unet3d_ct.yaml", config_check_command},
    {"config show", "Print a job with every default filled in",
     "tandem config show configs/unet3d_ct.yaml optimizer.lr=1e-3 --origin", config_show_command},
    {"config docs", "Print the table of all keys as Markdown", "tandem config docs > docs/config.md",
     config_docs_command},
    {"doctor", "Say what this machine offers and what is missing", "tandem doctor --json", doctor_command},
    {"version", "Print version, build and libraries", "tandem version", version_command},
});

struct Group {
  std::string_view name, summary;
};
constexpr auto kGroups = std::to_array<Group>({
    {"ckpt", "List, show, verify and compare checkpoints"},
    {"config", "Check and show job files"},
    {"data", "Convert and check data"},
});

}  // namespace

std::span<const Command> command_table() { return kCommands; }

std::string_view group_summary(std::string_view group) {
  for (const Group& row : kGroups)
    if (row.name == group) return row.summary;
  return "";
}

}  // namespace tandem
