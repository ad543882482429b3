// Messages reach the log file with a time and a level.
#include "core/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include "core/base/error.h"
#include "core/base/files.h"

namespace tandem {
namespace {

TEST(Log, FileGetsTimeLevelAndText) {
  const auto path = std::filesystem::temp_directory_path() / ("tandem log " + std::to_string(::getpid()));
  log_info("before the file");
  add_log_file(path);
  log_info("step {}", 12);
  log_warning("busy");
  set_log_level(LogLevel::kWarning);
  log_info("hidden");
  set_log_level(LogLevel::kInfo);
  const std::string text = read_text_file(path, 10000);
  std::filesystem::remove(path);
  const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)";
  EXPECT_TRUE(std::regex_match(text, std::regex(time + " info before the file\n" + time + " info step 12\n" +
                                                time + " warning busy\n")))
      << text;
}

TEST(Log, UnusablePathIsAnError) { EXPECT_THROW(add_log_file("/proc/none/log.txt"), Error); }

}  // namespace
}  // namespace tandem
