// The strict YAML reader over the events of yaml-cpp: the only file that includes it. yaml-cpp accepts more
// than a job file may contain (duplicate keys, unterminated quotes, aliases), so each event is checked
// against the text itself.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/config/errors.h"
#include "core/config/numbers.h"
#include "core/config/text.h"
#include "core/config/tree.h"

namespace tandem {
namespace {

// Something after which reading cannot go on.
struct Stop {
  std::string text;
  Position place;
  std::string note;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const TextLines& lines, std::shared_ptr<const ConfigSource> source, ErrorList& errors)
      : lines_(lines), source_(std::move(source)), errors_(errors) {}

  // The tree, once all was read.
  ConfigNode take_root() {
    for (const Position& at : folded_)
      errors_.add("a text over several lines", at, "put it in quotes, or check the indentation below it");
    return std::move(root_);
  }
  Position position(const YAML::Mark& mark) const {
    return {source_, mark.line + 1, lines_.column(mark.line, mark.column)};
  }

  // What yaml-cpp found wrong, in the words of explain(), at the place that helps most.
  void add_syntax_error(const YAML::Exception& e);
  std::optional<std::pair<int, int>> key_without_blank_before(int line) const;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    if (lines_.has(mark.line, mark.column, "---"))
      throw Stop{"a second document starts here", position(mark), "a job is one document"};
    throw Stop{"this line does not fit what is above it", position(mark), "check the indentation"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    check_properties(mark);
    ConfigNode node;
    const char c = lines_.at(mark.line, mark.column);
    const bool written = c == '~' || c == 'n' || c == 'N';
    node.set_position(!written && pending_key() ? pending_key()->key_position : position(mark));
    place(std::move(node), mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    errors_.add("an alias ('*') is not allowed in a job file", position(mark), "write the value out");
    place(ConfigNode(), mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    check_properties(mark);
    const char first = lines_.at(mark.line, mark.column);
    if ((first == '"' || first == '\'') && !lines_.quote_ends(mark.line, mark.column))
      throw Stop{"a quote that starts here is never closed", position(mark), ""};
    if (value.find('\0') != std::string::npos) errors_.add("a text with the character NUL", position(mark));
    const bool quoted = first == '"' || first == '\'' || first == '|' || first == '>';
    if (!quoted && first != '!' && first != '&' && !lines_.has(mark.line, mark.column, value))
      folded_.push_back(position(mark));
    ConfigNode node = ConfigNode::scalar(value, quoted);
    node.set_position(position(mark));
    place(std::move(node), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(ConfigNode::list(), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(ConfigNode::map(), mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    ConfigNode node;
    YAML::Mark mark;
    std::optional<ConfigEntry> pending{};  // of a map: a key that waits for its value
    std::unordered_map<std::string, Position> seen{};
    bool duplicate = false;
  };

  const ConfigEntry* pending_key() const {
    return stack_.empty() || !stack_.back().pending ? nullptr : &*stack_.back().pending;
  }

  // Tags and anchors stand in front of what they belong to, at its mark.
  void check_properties(const YAML::Mark& mark) {
    const char c = lines_.at(mark.line, mark.column);
    if (c == '&')
      errors_.add("an anchor ('&') is not allowed in a job file", position(mark), "write the value out");
    if (c == '!')
      errors_.add("a tag ('!') is not allowed in a job file", position(mark), "types follow from the keys");
  }

  std::string path() const {
    std::string text;
    for (const Frame& frame : stack_) {
      if (frame.pending) text = join_key(text, frame.pending->key);
      if (frame.node.is_list()) text = join_key(text, fmt::format("[{}]", frame.node.items().size()));
    }
    return text;
  }

  void count_node(const YAML::Mark& mark) {
    last_ = mark;
    if (++nodes_ > kMaxConfigNodes)
      throw Stop{fmt::format("more than {} values", kMaxConfigNodes), position(mark), ""};
  }

  void open(ConfigNode node, const YAML::Mark& mark) {
    count_node(mark);
    check_properties(mark);
    if (static_cast<int>(stack_.size()) >= kMaxConfigDepth)
      throw Stop{fmt::format("nested deeper than {} levels", kMaxConfigDepth), position(mark), ""};
    if (!stack_.empty() && stack_.back().node.is_map() && !stack_.back().pending) stop_at_list_key(mark);
    node.set_position(position(mark));
    stack_.push_back(Frame{std::move(node), mark});
  }

  // yaml-cpp takes a '[' that starts a line and is never closed for the start of a key.
  [[noreturn]] void stop_at_list_key(const YAML::Mark& mark) const {
    const char c = lines_.at(mark.line, mark.column);
    if ((c == '[' || c == '{') && !lines_.bracket_ends(mark.line, mark.column))
      throw Stop{fmt::format("a '{}' is never closed by '{}'", c, c == '[' ? ']' : '}'), position(mark),
                 "or a ',' is missing"};
    throw Stop{"a list or map as a key", position(mark), "a key is a text"};
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    attach(std::move(frame.node));
  }

  // A scalar or null: a value, or the next key of a map.
  void place(ConfigNode node, const YAML::Mark& mark) {
    count_node(mark);
    if (stack_.empty() || stack_.back().node.is_list() || stack_.back().pending)
      attach(std::move(node));
    else
      start_key(node);
  }

  void start_key(const ConfigNode& node) {
    const Position& at = node.position();
    if (node.is_null()) throw Stop{"a key is missing in front of ':'", at, ""};
    if (node.text() == "<<" && !node.quoted())
      errors_.add("a merge key ('<<') is not allowed in a job file", at, "use inherit: [file.yaml]");
    Frame& frame = stack_.back();
    const auto [seen, is_new] = frame.seen.emplace(node.text(), at);
    frame.pending = ConfigEntry{node.text(), at, ConfigNode()};
    frame.duplicate = !is_new;
    if (!is_new)
      errors_.add(fmt::format("'{}' is given twice", printable(path(), 120)), at,
                  fmt::format("first at {}", seen->second.text()));
  }

  void attach(ConfigNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.is_list()) {
      frame.node.append(std::move(node));
      return;
    }
    frame.pending->value = std::move(node);
    if (!frame.duplicate) frame.node.add_new(std::move(*frame.pending));
    frame.pending.reset();
  }

  const TextLines& lines_;
  std::shared_ptr<const ConfigSource> source_;
  ErrorList& errors_;
  std::vector<Frame> stack_;
  std::vector<Position> folded_;  // plain texts over several lines: reported if no syntax error explains them
  ConfigNode root_;
  std::int64_t nodes_ = 0;
  int documents_ = 0;
  YAML::Mark last_;  // where the last value or key started
};

// What a message of yaml-cpp means to the writer of a job file.
std::pair<std::string, std::string> explain(std::string_view message) {
  struct Row {
    std::string_view part, text, note;
  };
  constexpr Row kRows[] = {
      {"illegal map value", "a 'key: value' is not possible here",
       "check the indentation, and quote texts with ': '"},
      {"end of map not found", "this line does not fit the map above it",
       "check the indentation and the ':' after a key"},
      {"end of sequence not found", "this line does not fit the list above it", "check the indentation"},
      {"end of map flow not found", "a '{' is never closed by '}'", "or a ',' is missing"},
      {"end of sequence flow not found", "a '[' is never closed by ']'", "or a ',' is missing"},
      {"illegal flow end", "a ']' or '}' that closes nothing", ""},
      {"illegal block entry", "a '- ' is not possible here", "check the indentation"},
      {" in scalar", "a quote is never closed", ""},
      {"illegal tab", "a tab in the indentation", "use spaces"},
      {"unknown escape character", "an unknown escape after '\\' in a double-quoted text",
       "use single quotes for a text with backslashes"},
      {"bad character found while scanning hex", "a bad hexadecimal escape in a double-quoted text",
       "use single quotes for a text with backslashes"},
      {"unknown token", "a character that cannot start a value here", "quote the text"},
      {"chomp", "a bad header of a block text", ""},
      {"repeat indentation", "a bad header of a block text", ""},
      {"cannot assign multiple", "several tags or anchors", "write the value out"},
      {"anchor not found", "an alias or anchor is not allowed in a job file", "write the value out"},
      {"the referenced anchor is not defined", "an alias ('*') is not allowed in a job file",
       "write the value out"},
  };
  for (const Row& row : kRows)
    if (message.find(row.part) != std::string_view::npos)
      return {std::string(row.text), std::string(row.note)};
  return {fmt::format("not valid YAML ({})", message), ""};
}

// "lr:0.1" makes a text of its line and those below: what fails is the first ': ' there. Line and byte column
// of such a key at `line` or in the lines directly above that have no ': ' either.
std::optional<std::pair<int, int>> TreeBuilder::key_without_blank_before(int line) const {
  for (int at = line; at >= 0 && at > line - 3; --at)
    if (const auto column = lines_.key_without_blank(at)) return std::pair(at, *column);
  return std::nullopt;
}

void TreeBuilder::add_syntax_error(const YAML::Exception& e) {
  auto [what, note] = explain(e.msg);
  YAML::Mark mark = e.mark;
  if (lines_.has_tab_indentation(mark.line)) {
    what = "a tab in the indentation";
    note = "use spaces";
  } else if (e.msg.find(" in scalar") != std::string::npos) {  // the end of the text inside quotes
    if (const auto open = lines_.open_quote(last_.line, last_.column)) {
      mark.line = open->first;
      mark.column = open->second;
      what = "a quote that starts here is never closed";
      note.clear();
    }
  } else if (const auto key = key_without_blank_before(mark.line)) {
    what = "a space is missing after ':'";
    note = "write 'key: value'";
    mark.line = key->first;
    mark.column = key->second;
  } else if (e.msg.find("flow not found") != std::string::npos && !stack_.empty()) {
    mark = stack_.back().mark;
  }
  errors_.add(std::move(what), position(mark), std::move(note));
}

}  // namespace

ConfigNode parse_yaml_text(std::string_view text, ConfigSource source_value) {
  const auto source = std::make_shared<const ConfigSource>(std::move(source_value));
  ErrorList errors;
  if (static_cast<std::int64_t>(text.size()) > kMaxConfigBytes)
    errors.add(fmt::format("{} bytes long, expected at most {}", text.size(), kMaxConfigBytes),
               {source, 1, 1});
  errors.throw_if_any();
  const TextLines lines(text);
  if (const auto bad = lines.first_bad_character())
    errors.add(bad->what, {source, bad->line, bad->column}, bad->note);
  if (const auto line = lines.directive())
    errors.add("a directive ('%') is not allowed in a job file", {source, *line, 1}, "leave the line out");
  errors.throw_if_any();

  TreeBuilder builder(lines, source, errors);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop& stop) {
    errors.add(stop.text, stop.place, stop.note);
  } catch (const YAML::Exception& e) {
    builder.add_syntax_error(e);
  }
  errors.throw_if_any();
  ConfigNode root = builder.take_root();
  errors.throw_if_any();
  if (!root.position().source) root.set_position({source, 1, 1});
  return root;
}

ConfigNode parse_yaml_text(std::string_view text, std::string file_name) {
  return parse_yaml_text(text, ConfigSource{std::move(file_name), {}, true, 0});
}

ConfigNode parse_yaml_file(const std::filesystem::path& path, int rank) {
  const std::string text = read_text_file(path, kMaxConfigBytes);
  return parse_yaml_text(text, ConfigSource{path.string(), path.parent_path(), true, rank});
}

}  // namespace tandem
