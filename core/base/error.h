// The one exception type of Tandem and the exit code of each kind. Nothing else throws across a public
// boundary. Text: `[where] what: got ..., expected ...` + module path + `What to do.`; applications print
// what() and no trace.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// Why something failed; the process exit code follows from it (exit_code()).
enum class ErrorKind {
  kInternal,    // 1   a bug in Tandem: the text says where to report it
  kUsage,       // 2   wrong command line
  kConfig,      // 2   wrong job file
  kShape,       // 2   shapes or dtypes that do not fit
  kData,        // 3   unreadable or wrong input data
  kCheckpoint,  // 4   unreadable or unfitting checkpoint
  kNumeric,     // 5   numbers went bad (limits of the loss scaler, non-finite weights)
  kResource,    // 6   memory, disk space, permission
  kDevice,      // 7   device missing or failed
  kStopped,     // 75  stopped by a signal, a checkpoint was saved
};

// The process exit code of `kind` (DESIGN 8).
int exit_code(ErrorKind kind);

class Error : public std::exception {
 public:
  // `text`: "[where] what: got ..., expected ..." without a final full stop. `hint`: what to do, a whole
  // sentence (may be empty).
  Error(ErrorKind kind, std::string text, std::string hint = "");

  ErrorKind kind() const { return kind_; }
  const std::string& text() const { return text_; }
  const std::string& hint() const { return hint_; }
  const std::string& module_path() const { return module_path_; }

  // Puts `name` in front of the module path ("conv1" -> "enc0.conv1"); called while the exception unwinds.
  void prefix_module(std::string_view name);

  // text [+ "\n  (module PATH)"] + "." [+ " " + hint]
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void compose();

  ErrorKind kind_;
  std::string text_, hint_, module_path_, what_;
};

// Throws Error(kind, formatted text).
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

// Throws Error(kInternal) naming `what` unless `holds`: for conditions that only a bug in Tandem can break.
void check_internal(bool holds, std::string_view what);

}  // namespace tandem
