// Composition of error texts and the table of exit codes.
#include "core/base/error.h"

namespace tandem {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal:
      return 1;
    case ErrorKind::kUsage:
    case ErrorKind::kConfig:
    case ErrorKind::kShape:
      return 2;
    case ErrorKind::kData:
      return 3;
    case ErrorKind::kCheckpoint:
      return 4;
    case ErrorKind::kNumeric:
      return 5;
    case ErrorKind::kResource:
      return 6;
    case ErrorKind::kDevice:
      return 7;
    case ErrorKind::kStopped:
      return 75;
  }
  return 1;
}

Error::Error(ErrorKind kind, std::string text, std::string hint)
    : kind_(kind), text_(std::move(text)), hint_(std::move(hint)) {
  compose();
}

void Error::prefix_module(std::string_view name) {
  if (name.empty()) return;
  module_path_ = module_path_.empty() ? std::string(name) : fmt::format("{}.{}", name, module_path_);
  compose();
}

void Error::compose() {
  what_ = text_;
  if (!module_path_.empty()) what_ += fmt::format("\n  (module {})", module_path_);
  if (!what_.empty() && what_.back() != '.' && what_.back() != '\n') what_ += '.';
  if (!hint_.empty()) what_ += " " + hint_;
}

void check_internal(bool holds, std::string_view what) {
  if (!holds) throw Error(ErrorKind::kInternal, fmt::format("[internal] {}", what));
}

}  // namespace tandem
