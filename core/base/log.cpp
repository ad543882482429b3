// The logger behind log.h: spdlog, included here only (its headers are slow to compile).
#include "core/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "core/base/error.h"

namespace tandem {
namespace {

// Messages from before the first file, which gets them too.
constexpr std::size_t kEarlyMessages = 500;
using EarlySink = spdlog::sinks::ringbuffer_sink_mt;

// "warning: " and "error: " in front of what people read on stderr; log.txt has a column for the level.
class LevelPrefix final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& destination) override {
    const std::string_view prefix = message.level == spdlog::level::warn  ? "warning: "
                                    : message.level == spdlog::level::err ? "error: "
                                                                          : "";
    destination.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelPrefix>(); }
};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LevelPrefix>('*').set_pattern("%*%v");
    sink->set_formatter(std::move(formatter));
    auto made = std::make_shared<spdlog::logger>("tandem", sink);
    made->sinks().push_back(std::make_shared<EarlySink>(kEarlyMessages));
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

void add_log_file(const std::filesystem::path& path) {
  for (const spdlog::sink_ptr& sink : logger().sinks())
    if (const auto* file = dynamic_cast<const spdlog::sinks::basic_file_sink_mt*>(sink.get()))
      if (file->filename() == path.string()) return;
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), false);
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                                                                    spdlog::pattern_time_type::utc));
    for (spdlog::sink_ptr& other : logger().sinks())
      if (auto* early = dynamic_cast<EarlySink*>(other.get())) {
        for (const auto& message : early->last_raw()) sink->log(message);
        sink->flush();
        std::swap(other, logger().sinks().back());
        logger().sinks().pop_back();
        break;
      }
    logger().sinks().push_back(sink);
  } catch (const spdlog::spdlog_ex& e) {
    throw Error(ErrorKind::kResource, fmt::format("[log] {}: cannot be opened: {}", path.string(), e.what()));
  }
}

void write_log(LogLevel level, std::string_view message) {
  logger().log(to_spdlog(level), "{}", without_control_characters(message));
}

std::string without_control_characters(std::string_view message) {
  std::string text;
  text.reserve(message.size());
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text;
}

}  // namespace tandem
