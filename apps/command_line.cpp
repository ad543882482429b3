// Words to values: the frame around the table of commands, and the only file that includes CLI11 (slow to
// compile).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/config/nearest.h"
#include "core/config/numbers.h"
#include "data/case_list.h"

namespace tandem {
namespace {

const char* const kFooter =
    "Exit codes: 0 done; 2 usage, config, shape; 3 data; 4 checkpoint; 5 numbers went bad; 6 memory, disk, "
    "permission;\n"
    "  7 device; 75 stopped by a signal (train: checkpoint saved); 130 second Ctrl-C; 1 anything else (a "
    "bug).\n"
    "`tandem COMMAND --help` has an example for each command.";

std::string_view first_word(std::string_view name) { return name.substr(0, name.find(' ')); }
std::string_view second_word(std::string_view name) {
  const std::size_t space = name.find(' ');
  return space == std::string_view::npos ? std::string_view() : name.substr(space + 1);
}

// The second words of `group`, or all first words for "".
std::vector<std::string> words_after(std::string_view group) {
  std::vector<std::string> words;
  for (const Command& command : command_table()) {
    const std::string_view word = group.empty() ? first_word(command.name) : second_word(command.name);
    const bool in_group = group.empty() || first_word(command.name) == group;
    if (in_group && !word.empty() && std::find(words.begin(), words.end(), word) == words.end())
      words.emplace_back(word);
  }
  return words;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  return text;
}

[[noreturn]] void fail_word(const std::string& what, const std::string& word,
                            const std::vector<std::string>& known, const std::string& help) {
  const std::string nearest = nearest_name(word, known);
  throw Error(
      ErrorKind::kUsage,
      fmt::format("[tandem] unknown {} '{}': expected one of {}", what, printable(word, 60), list_of(known)),
      nearest.empty() ? fmt::format("See `{}`.", help) : fmt::format("Did you mean '{}'?", nearest));
}

// Commands are checked before CLI11 sees them: its own text names neither the nearest nor the possible ones.
void check_command_words(const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return;
  const std::vector<std::string> commands = words_after("");
  if (std::find(commands.begin(), commands.end(), words[0]) == commands.end())
    fail_word("command", words[0], commands, "tandem --help");
  const std::vector<std::string> second = words_after(words[0]);
  if (second.empty()) return;
  if (words.size() < 2)
    throw Error(ErrorKind::kUsage, fmt::format("[tandem] '{}' needs one of {}", words[0], list_of(second)),
                fmt::format("See `tandem {} --help`.", words[0]));
  if (!words[1].starts_with('-') && std::find(second.begin(), second.end(), words[1]) == second.end())
    fail_word(fmt::format("{} command", words[0]), words[1], second,
              fmt::format("tandem {} --help", words[0]));
}

CLI::App* innermost(CLI::App& app) {
  CLI::App* inner = &app;
  while (!inner->get_subcommands().empty()) inner = inner->get_subcommands().back();
  return inner;
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name()
                                      : full_name(app->get_parent()) + " " + app->get_name();
}

[[noreturn]] void fail_extra(CLI::App& app, const std::string& word) {
  const std::string help = full_name(&app) + " --help";
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  if (word.starts_with('-')) fail_word("flag", word.substr(0, word.find('=')), flags, help);
  throw Error(ErrorKind::kUsage, fmt::format("[tandem] unexpected word '{}'", printable(word, 60)),
              fmt::format("See `{}`.", help));
}

// CLI11's description of a wrong word, as ours.
[[noreturn]] void fail_parse(CLI::App& app, const CLI::ParseError& e) {
  CLI::App& inner = *innermost(app);
  if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::vector<std::string> extra = app.remaining(true);
    const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
    const auto flag = std::find_if(extra.begin(), extra.end(), is_flag);
    if (!extra.empty()) fail_extra(inner, flag != extra.end() ? *flag : extra.front());
  }
  throw Error(ErrorKind::kUsage, fmt::format("[tandem] {}", e.what()),
              fmt::format("See `{} --help`.", full_name(&inner)));
}

// The subcommand of `name`, made with its group where that is new: the group's example is that of its first
// command.
CLI::App& make_command(CLI::App& root, std::map<std::string, CLI::App*>& groups, const Command& command) {
  CLI::App* parent = &root;
  std::string_view name = command.name;
  if (const std::string_view second = second_word(name); !second.empty()) {
    const std::string group(first_word(name));
    CLI::App*& made = groups[group];
    if (made == nullptr)
      made = root.add_subcommand(group, std::string(group_summary(group)))
                 ->footer(fmt::format("Example:\n  {}", command.example))
                 ->require_subcommand(0, 1)
                 ->group("Commands");
    parent = made;
    name = second;
  }
  CLI::App& made = *parent->add_subcommand(std::string(name), std::string(command.summary));
  made.group("Commands");
  made.footer(fmt::format("Example:\n  {}", command.example));
  return made;
}

}  // namespace

Arguments& Arguments::positional(const std::string& name, std::string& value, const std::string& doc) {
  app_.add_option(name, value, doc)->required()->type_name("");
  return *this;
}

Arguments& Arguments::optional_positional(const std::string& name, std::string& value,
                                          const std::string& doc) {
  app_.add_option(name, value, doc)->type_name("")->capture_default_str();
  return *this;
}

Arguments& Arguments::positionals(const std::string& name, std::vector<std::string>& values,
                                  const std::string& doc, int at_least) {
  CLI::Option* option = app_.add_option(name, values, doc)->type_name("");
  if (at_least > 0) option->required()->expected(at_least, CLI::detail::expected_max_vector_size);
  return *this;
}

Arguments& Arguments::overrides(std::vector<std::string>& values) {
  app_.add_option("KEY=VALUE", values, "Overrides of the job file, such as optimizer.lr=1e-3")->type_name("");
  return *this;
}

Arguments& Arguments::option(const std::string& flag, const std::string& value_name, std::string& value,
                             const std::string& doc) {
  CLI::Option* option = app_.add_option(flag, value, doc)->type_name(value_name);
  if (!value.empty()) option->capture_default_str();
  return *this;
}

Arguments& Arguments::option(const std::string& flag, const std::string& value_name,
                             std::optional<std::string>& value, const std::string& doc) {
  app_.add_option_function<std::string>(
          flag, [&value](const std::string& text) { value = text; }, doc)
      ->type_name(value_name);
  return *this;
}

Arguments& Arguments::option(const std::string& flag, const std::string& value_name,
                             std::optional<std::int64_t>& value, const std::string& doc) {
  const auto store = [&value, flag](const std::string& text) {
    const NumberReading<WideInteger> reading = read_integer(text);
    if (!reading.value || *reading.value > INT64_MAX || *reading.value < INT64_MIN)
      throw Error(ErrorKind::kUsage,
                  fmt::format("[tandem] {}: got '{}', expected an integer", flag, printable(text, 60)));
    value = static_cast<std::int64_t>(*reading.value);
  };
  app_.add_option_function<std::string>(flag, store, doc)->type_name(value_name);
  return *this;
}

Arguments& Arguments::option(const std::string& flag, const std::string& value_name,
                             std::vector<std::string>& values, const std::string& doc) {
  // One word each time it is given: else it would swallow the positionals behind it.
  app_.add_option(flag, values, doc)->type_name(value_name)->expected(1)->allow_extra_args(false)->take_all();
  return *this;
}

Arguments& Arguments::flag(const std::string& flag, bool& value, const std::string& doc) {
  app_.add_flag(flag, value, doc);
  return *this;
}

std::vector<std::pair<std::string, std::string>> command_flags(const Command& command) {
  CLI::App app;
  Arguments arguments(app);
  command.declare(arguments);
  std::vector<std::pair<std::string, std::string>> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (name != "help") flags.emplace_back("--" + name, option->get_description());
  return flags;
}

void take_inputs(std::vector<std::string>& overrides, std::vector<std::string>& inputs) {
  if (inputs.empty()) return;
  const auto names_files = [](const std::string& word) {
    std::error_code error;
    const bool looks_so =
        word.find('=') == std::string::npos &&
        (is_case_file_name(word) || is_nifti_name(word) || word.find_first_of("/*?") != std::string::npos);
    return looks_so || std::filesystem::exists(word, error);
  };
  std::copy_if(overrides.begin(), overrides.end(), std::back_inserter(inputs), names_files);
  std::erase_if(overrides, names_files);
}

int run_command_line(const std::vector<std::string>& given_words) {
  std::vector<std::string> words = given_words;
  if (!words.empty() && words[0] == "help") {  // tandem help train = tandem train --help
    words.erase(words.begin());
    words.push_back("--help");
  }
  if (!words.empty() && words[0] == "--version") words[0] = "version";

  CLI::App app("Trains neural networks in mixed precision from a YAML file.", "tandem");
  app.footer(kFooter);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("REQUIRED", "");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(0, 1);  // further words are never taken for a second command
  std::map<std::string, CLI::App*> groups;
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : command_table()) {
    CLI::App& made = make_command(app, groups, command);
    Arguments arguments(made);
    actions.emplace_back(&made, command.declare(arguments));
  }
  if (words.empty()) {
    fmt::print(stderr, "{}", app.help());
    return exit_code(ErrorKind::kUsage);
  }
  check_command_words(words);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* asked = innermost(app);
    fmt::print("{}", asked->help(asked == &app ? "" : full_name(asked->get_parent())));
    return 0;
  } catch (const CLI::ParseError& e) {
    fail_parse(app, e);
  }
  for (const auto& [parsed, action] : actions)
    if (parsed->parsed()) return action();
  throw Error(ErrorKind::kUsage, "[tandem] no command given", "See `tandem --help`.");
}

}  // namespace tandem
