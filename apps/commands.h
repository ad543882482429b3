// The commands of `tandem`: one source file each, one row each in commands.cpp. How words become values is in
// command_line.cpp, the only file that knows CLI11.
//
// A new command `tandem foo` is a file apps/foo.cpp with
//
//   Action foo_command(Arguments& arguments) {
//     struct Flags { std::string file; std::vector<std::string> overrides; bool dry_run = false; };
//     const auto flags = std::make_shared<Flags>();
//     arguments.positional("FILE", flags->file, "The job")
//         .overrides(flags->overrides)
//         .flag("--dry-run", flags->dry_run, "Build everything, train nothing");
//     return [flags] { return run_foo(*flags); };   // runs after a parse without error; returns the exit
//     code
//   }
//
// its declaration below, and a row of the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace tandem {

// What a command does once its words are read; returns the exit code (0: done). Errors are thrown as
// tandem::Error.
using Action = std::function<int()>;

// Declares the words of one command. Variables must outlive the action: keep them in a shared_ptr it
// captures. Their values before the parse are the defaults that --help shows.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // Words without a dash, in order of declaration.
  Arguments& positional(const std::string& name, std::string& value, const std::string& doc);  // required
  Arguments& optional_positional(const std::string& name, std::string& value, const std::string& doc);
  Arguments& positionals(const std::string& name, std::vector<std::string>& values, const std::string& doc,
                         int at_least = 0);
  // All further words are overrides of the job file: `optimizer.lr=1e-3`.
  Arguments& overrides(std::vector<std::string>& values);

  // `--run-dir D`: `flag` with its dashes, `value_name` for the help. A vector's flag may be given several
  // times.
  Arguments& option(const std::string& flag, const std::string& value_name, std::string& value,
                    const std::string& doc);
  Arguments& option(const std::string& flag, const std::string& value_name, std::optional<std::string>& value,
                    const std::string& doc);
  Arguments& option(const std::string& flag, const std::string& value_name,
                    std::optional<std::int64_t>& value, const std::string& doc);
  Arguments& option(const std::string& flag, const std::string& value_name, std::vector<std::string>& values,
                    const std::string& doc);
  Arguments& flag(const std::string& flag, bool& value, const std::string& doc);

 private:
  CLI::App& app_;
};

struct Command {
  std::string_view name;     // "train", or "config check" for a command of a group
  std::string_view summary;  // one line
  std::string_view example;  // a whole command line
  Action (*declare)(Arguments&);
};

// All commands, in the order of --help.
std::span<const Command> command_table();
// One line about a group: "config" -> "Check and show job files".
std::string_view group_summary(std::string_view group);

// "--flag" and its text, for every flag of `command`; --help is left out.
std::vector<std::pair<std::string, std::string>> command_flags(const Command& command);

// Reads `words` (without the program's name) and runs the command. Returns its exit code; throws
// Error{kUsage} for words that fit no command, with the nearest one that does.
int run_command_line(const std::vector<std::string>& words);

// `--input A B` reads only A, and B becomes an override: moves such words, files, folders and globs, to
// `inputs`, where --input was given at all.
void take_inputs(std::vector<std::string>& overrides, std::vector<std::string>& inputs);

Action ckpt_diff_command(Arguments& arguments);
Action ckpt_ls_command(Arguments& arguments);
Action ckpt_prune_command(Arguments& arguments);
Action ckpt_show_command(Arguments& arguments);
Action ckpt_verify_command(Arguments& arguments);
Action completion_command(Arguments& arguments);
Action config_check_command(Arguments& arguments);
Action config_docs_command(Arguments& arguments);
Action config_schema_command(Arguments& arguments);
Action config_show_command(Arguments& arguments);
Action data_check_command(Arguments& arguments);
Action data_convert_command(Arguments& arguments);
Action data_synth_command(Arguments& arguments);
Action doctor_command(Arguments& arguments);
Action eval_command(Arguments& arguments);
Action init_command(Arguments& arguments);
Action plan_command(Arguments& arguments);
Action predict_command(Arguments& arguments);
Action report_command(Arguments& arguments);
Action summary_command(Arguments& arguments);
Action sweep_command(Arguments& arguments);
Action train_command(Arguments& arguments);
Action version_command(Arguments& arguments);

}  // namespace tandem
