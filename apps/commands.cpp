// The table of commands.
#include "apps/commands.h"

#include <array>

namespace tandem {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"init", "Write a commented job file for a folder of cases", "tandem init data/cases --output job.yaml",
     init_command},
    {"train", "Train a job into a run folder",
     "tandem train configs/unet3d_ct.yaml train.iterations=40 --run-dir runs/try", train_command},
    {"eval", "Score a checkpoint on whole volumes", "tandem eval runs/unet3d_ct-001 --json", eval_command},
    {"predict", "Label a volume, on its own grid",
     "tandem predict runs/unet3d_ct-001 --input scan.nii.gz --output labels.nii.gz", predict_command},
    {"report", "Make report.html of a run again, from its folder", "tandem report runs/unet3d_ct-001",
     report_command},
    {"plan", "Write a job file for a data set by the rules of nnU-Net",
     "tandem plan data/Dataset101_Hip --memory 8GiB --output hip.yaml", plan_command},
    {"sweep", "Train a job over a grid or list of values, one run after the other",
     "tandem sweep configs/unet3d_ct.yaml --grid 'optimizer.lr=[1e-3, 1e-2]' --sweep-dir runs/lr",
     sweep_command},
    {"summary", "The network of a job layer by layer, and its cost", "tandem summary configs/unet3d_ct.yaml",
     summary_command},
    {"config check", "Check a job file; every error with its line",
     "tandem config check configs/unet3d_ct.yaml", config_check_command},
    {"config show", "Print a job with every default filled in",
     "tandem config show configs/unet3d_ct.yaml optimizer.lr=1e-3 --origin", config_show_command},
    {"config docs", "Print the table of all keys as Markdown", "tandem config docs | less",
     config_docs_command},
    {"config schema", "Print the JSON Schema of job files, for editors",
     "tandem config schema > job.schema.json", config_schema_command},
    {"data check", "List every fault of every file", "tandem data check configs/unet3d_ct.yaml",
     data_check_command},
    {"data convert", "Make a case file from NIfTI images and labels",
     "tandem data convert ct.nii.gz --label seg.nii.gz --region x=0:61 --output left.h5",
     data_convert_command},
    {"data synth", "Generate a phantom case", "tandem data synth phantom.h5 --seed 2", data_synth_command},
    {"ckpt ls", "List the checkpoints of a run", "tandem ckpt ls runs/unet3d_ct-001", ckpt_ls_command},
    {"ckpt show", "Say what a checkpoint holds", "tandem ckpt show runs/unet3d_ct-001/step-000000800.h5",
     ckpt_show_command},
    {"ckpt verify", "Check digests of a checkpoint or of a run's", "tandem ckpt verify runs/unet3d_ct-001",
     ckpt_verify_command},
    {"ckpt prune", "Delete old checkpoints of a run",
     "tandem ckpt prune runs/unet3d_ct-001 --keep-last 1 --dry-run", ckpt_prune_command},
    {"ckpt diff", "Compare two checkpoints bit for bit", "tandem ckpt diff runs/a-001 runs/b-001",
     ckpt_diff_command},
    {"doctor", "Say what this machine offers and what is missing", "tandem doctor --json", doctor_command},
    {"completion", "Print the completion script of a shell",
     "tandem completion bash > ~/.local/share/bash-completion/completions/tandem", completion_command},
    {"version", "Print version, build and libraries", "tandem version", version_command},
});

struct Group {
  std::string_view name, summary;
};
constexpr auto kGroups = std::to_array<Group>({
    {"ckpt", "List, show, verify, compare and delete checkpoints"},
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
