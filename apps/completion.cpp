// `tandem completion bash | zsh | fish`: scripts made from the table of commands, so that they never lag
// behind it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// A word of the command line after "tandem": a command, or a group of them.
struct Word {
  std::string name, summary;
  std::vector<Word> words;                                 // of a group
  std::vector<std::pair<std::string, std::string>> flags;  // of a command
};

std::vector<Word> command_tree() {
  std::vector<Word> tree;
  for (const Command& command : command_table()) {
    const std::string name(command.name);
    const std::size_t space = name.find(' ');
    const std::string first = name.substr(0, space);
    Word leaf{.name = space == std::string::npos ? name : name.substr(space + 1),
              .summary = std::string(command.summary),
              .flags = command_flags(command)};
    if (space == std::string::npos) {
      tree.push_back(std::move(leaf));
      continue;
    }
    auto group = std::find_if(tree.begin(), tree.end(), [&](const Word& word) { return word.name == first; });
    if (group == tree.end())
      group = tree.insert(tree.end(), Word{.name = first, .summary = std::string(group_summary(first))});
    group->words.push_back(std::move(leaf));
  }
  return tree;
}

std::string names_of(const std::vector<Word>& words) {
  std::string names;
  for (const Word& word : words) names += (names.empty() ? "" : " ") + word.name;
  return names;
}

std::string flags_of(const Word& word) {
  std::string names = "--help";
  for (const auto& [flag, doc] : word.flags) names += " " + flag;
  return names;
}

// Words in single quotes for a shell; a quote inside is left out.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    if (c != '\'' && c != '\n') out += c;
  out += "'";
  return out;
}

std::string bash_script() {
  std::string flags;
  for (const Word& word : command_tree()) {
    if (word.words.empty()) flags += fmt::format("    {}) words='{}' ;;\n", word.name, flags_of(word));
    for (const Word& second : word.words)
      flags += fmt::format("    '{} {}') words='{}' ;;\n", word.name, second.name, flags_of(second));
  }
  std::string groups;
  for (const Word& word : command_tree())
    if (!word.words.empty())
      groups += fmt::format("    {}) second='{}' ;;\n", word.name, names_of(word.words));
  return fmt::format(R"(# bash completion of tandem; made by `tandem completion bash`
_tandem() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} second='' words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  case $command in
{}  esac
  if [ -n "$second" ]; then
    if [ "$COMP_CWORD" -eq 2 ]; then
      COMPREPLY=($(compgen -W "$second --help" -- "$current"))
      return
    fi
    command="$command ${{COMP_WORDS[2]}}"
  fi
  case $command in
{}  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o default -F _tandem tandem
)",
                     names_of(command_tree()), groups, flags);
}

// An array of 'name:summary' for _describe.
std::string zsh_array(const std::string& name, const std::vector<Word>& words) {
  std::string out = fmt::format("local -a {}=(", name);
  for (const Word& word : words)
    out += fmt::format(" {}", shell_quoted(fmt::format("{}:{}", word.name, word.summary)));
  return out + " )";
}

std::string zsh_flags(const Word& word) {
  std::string out = "_arguments '--help[Print this help]'";
  for (const auto& [flag, doc] : word.flags) {
    std::string text;
    for (const char c : doc)
      if (c != '[' && c != ']' && c != ':') text += c;
    out += fmt::format(" {}", shell_quoted(fmt::format("{}[{}]", flag, text)));
  }
  return out + " '*:file:_files'";
}

std::string zsh_script() {
  std::string cases;
  for (const Word& word : command_tree()) {
    if (word.words.empty()) {
      cases += fmt::format("    {}) {} ;;\n", word.name, zsh_flags(word));
      continue;
    }
    std::string inner;
    for (const Word& second : word.words)
      inner += fmt::format("        {}) {} ;;\n", second.name, zsh_flags(second));
    cases += fmt::format(
        "    {})\n      if (( CURRENT == 3 )); then\n        {}\n        _describe command second\n      "
        "else\n"
        "        case $words[3] in\n{}        esac\n      fi ;;\n",
        word.name, zsh_array("second", word.words), inner);
  }
  return fmt::format(
      "#compdef tandem\n# zsh completion of tandem; made by `tandem completion zsh`\n_tandem() {{\n"
      "  if (( CURRENT == 2 )); then\n    {}\n    _describe command commands\n    return\n  fi\n"
      "  case $words[2] in\n{}  esac\n}}\nif [ \"$funcstack[1]\" = \"_tandem\" ]; then _tandem \"$@\"; else "
      "compdef "
      "_tandem tandem; fi\n",
      zsh_array("commands", command_tree()), cases);
}

std::string fish_flags(const Word& word, const std::string& condition) {
  std::string out;
  for (const auto& [flag, doc] : word.flags)
    out += fmt::format("complete -c tandem -n {} -l {} -d {}\n", shell_quoted(condition), flag.substr(2),
                       shell_quoted(doc));
  return out;
}

std::string fish_script() {
  std::string out = "# fish completion of tandem; made by `tandem completion fish`\n";
  for (const Word& word : command_tree()) {
    out += fmt::format("complete -c tandem -n __fish_use_subcommand -f -a {} -d {}\n", word.name,
                       shell_quoted(word.summary));
    const std::string seen = "__fish_seen_subcommand_from " + word.name;
    if (word.words.empty()) out += fish_flags(word, seen);
    for (const Word& second : word.words) {
      out += fmt::format("complete -c tandem -n {} -f -a {} -d {}\n",
                         shell_quoted(seen + "; and not __fish_seen_subcommand_from " + names_of(word.words)),
                         second.name, shell_quoted(second.summary));
      out += fish_flags(second, seen + "; and __fish_seen_subcommand_from " + second.name);
    }
  }
  return out;
}

}  // namespace

Action completion_command(Arguments& arguments) {
  const auto shell = std::make_shared<std::string>();
  arguments.positional("SHELL", *shell, "bash, zsh or fish");
  return [shell] {
    const std::map<std::string, std::string (*)()> scripts{
        {"bash", &bash_script}, {"zsh", &zsh_script}, {"fish", &fish_script}};
    const auto script = scripts.find(*shell);
    if (script == scripts.end())
      throw Error(ErrorKind::kUsage,
                  fmt::format("[completion] got '{}', expected bash, zsh or fish", *shell));
    fmt::print("{}", script->second());
    return 0;
  };
}

}  // namespace tandem
