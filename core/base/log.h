// Messages for people: to stderr and, once a run folder exists, to its log.txt. Machine-readable output goes
// elsewhere.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string_view>
#include <utility>

namespace tandem {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
// Appends every later message, with a UTC time stamp, to `path`; throws Error{kResource} if it cannot be
// opened.
void add_log_file(const std::filesystem::path& path);
void write_log(LogLevel level, std::string_view message);

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  write_log(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  write_log(LogLevel::kWarning, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tandem
