// Writing a tree as YAML that this reader and readers of YAML 1.1 and 1.2 take the same way.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/config/numbers.h"
#include "core/config/text.h"
#include "core/config/tree.h"

namespace tandem {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Words that some reader takes for null, a flag or a number.
bool is_reserved(std::string_view text) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"});
  std::string lower;
  for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

// Can stand without quotes: only harmless characters, and (for a text) cannot be taken for a number, null or
// flag.
bool plain_is_safe(std::string_view text, bool is_text) {
  constexpr std::string_view kInside = "_./+-";
  if (text.empty() || text.size() > 200) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool inside = is_letter(c) || (c >= '0' && c <= '9') || kInside.find(c) != std::string_view::npos ||
                        (c == ':' && i + 1 < text.size() && i > 0 && text[i - 1] != ':');
    if (!inside) return false;
  }
  const char first = text[0];
  if (!is_text) return (first != '-' || text.size() > 1) && text != "---" && text != "...";
  return (is_letter(first) || first == '_' || first == '/') && !is_reserved(text);
}

// The number of the UTF-8 character of `length` bytes at the start of `text`.
std::uint32_t code_point(std::string_view text, int length) {
  if (length == 1) return static_cast<unsigned char>(text[0]);
  std::uint32_t value = static_cast<unsigned char>(text[0]) & (0xffu >> (length + 1));
  for (int i = 1; i < length; ++i)
    value = (value << 6) | (static_cast<unsigned char>(text[static_cast<std::size_t>(i)]) & 0x3fu);
  return value;
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const int length = std::max(1, utf8_length(text));
    const std::uint32_t c = code_point(text, length);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", static_cast<char>(c));
    else if (c == '\n')
      out += "\\n";
    else if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff)
      out += fmt::format("\\u{:04x}", c);
    else
      out += text.substr(0, static_cast<std::size_t>(length));
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return out + "\"";
}

std::string scalar_text(const ConfigNode& node) {
  return plain_is_safe(node.text(), node.quoted()) ? node.text() : double_quoted(node.text());
}

std::string key_text(const std::string& key) { return plain_is_safe(key, true) ? key : double_quoted(key); }

bool has_map(const ConfigNode& list) {
  return std::any_of(list.items().begin(), list.items().end(),
                     [](const ConfigNode& item) { return item.is_map(); });
}

class Writer {
 public:
  explicit Writer(bool with_origins) : with_origins_(with_origins) {}

  void map(const ConfigNode& node, const ConfigNode* origins, int indent) {
    for (const ConfigEntry& entry : node.entries()) {
      const ConfigEntry* written = origins != nullptr ? origins->find(entry.key) : nullptr;
      const ConfigNode* origin = written != nullptr ? &written->value : nullptr;
      out_ += fmt::format("{:{}}{}:", "", indent, key_text(entry.key));
      if (entry.value.is_map() && !entry.value.entries().empty()) {
        out_ += '\n';
        map(entry.value, origin, indent + 2);
      } else if (entry.value.is_list() && has_map(entry.value)) {
        comment(origin);
        for (const ConfigNode& item : entry.value.items())
          out_ += fmt::format("{:{}}- {}\n", "", indent + 2, to_flow_yaml(item));
      } else {
        out_ += fmt::format(" {}", to_flow_yaml(entry.value));
        comment(origin);
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void comment(const ConfigNode* origin) {
    if (with_origins_)
      out_ += fmt::format("  # {}", origin != nullptr ? origin->position().origin() : "default");
    out_ += '\n';
  }

  bool with_origins_;
  std::string out_;
};

}  // namespace

std::string to_yaml(const ConfigNode& node, const ConfigNode* origins) {
  if (!node.is_map() || node.entries().empty()) return to_flow_yaml(node) + "\n";
  Writer writer(origins != nullptr);
  writer.map(node, origins, 0);
  return writer.take();
}

std::string to_flow_yaml(const ConfigNode& node) {
  if (node.is_null()) return "null";
  if (node.is_scalar()) return scalar_text(node);
  std::string text;
  for (const ConfigNode& item : node.items())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_flow_yaml(item));
  for (const ConfigEntry& entry : node.entries())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key_text(entry.key), to_flow_yaml(entry.value));
  return fmt::format("{}{}{}", node.is_list() ? '[' : '{', text, node.is_list() ? ']' : '}');
}

}  // namespace tandem
