// Messages for people: to stderr and, once a run folder exists, to its log.txt. Machine-readable output goes
// elsewhere.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
// Appends every later message, with a UTC time stamp, to `path`, and to the first such file the 500 messages
// before it; throws Error{kResource} if it cannot be opened. Twice the same path is once.
void add_log_file(const std::filesystem::path& path);
void write_log(LogLevel level, std::string_view message);

// `message` as it may go to a terminal or a log: control characters other than line feed and tab (texts of
// files, names and arguments may hold some: escape sequences would act) become \\x1b.
std::string without_control_characters(std::string_view message);

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  write_log(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  write_log(LogLevel::kWarning, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tandem
