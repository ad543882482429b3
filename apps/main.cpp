// The program `tandem`: runs one command and turns what it throws into one message and an exit code.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace {

const char* const kReport =
    "This is a bug in Tandem: please report it in the project's issue tracker, with this text, the command "
    "and the "
    "output of `tandem doctor --json`.";

void print_error(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::fflush(stdout);
  try {
    tandem::write_log(tandem::LogLevel::kError, text);  // to the run's log.txt too
  } catch (...) {  // no memory or no disk for it: what happened is told all the same
    std::fputs("error: ", stderr);
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fputc('\n', stderr);
  }
}

int run(const std::vector<std::string>& words) {
  try {
    return tandem::run_command_line(words);
  } catch (const tandem::Error& e) {
    print_error(e.what());
    if (e.kind() == tandem::ErrorKind::kInternal) fmt::print(stderr, "{}\n", kReport);
    return tandem::exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    print_error("[memory] an allocation failed. Use a smaller patch or batch, or free some memory.");
    return tandem::exit_code(tandem::ErrorKind::kResource);
  } catch (const std::exception& e) {
    print_error(e.what());
  } catch (...) {
    print_error("an exception of unknown type");
  }
  fmt::print(stderr, "{}\n", kReport);
  return tandem::exit_code(tandem::ErrorKind::kInternal);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  print_error("[output] the standard output cannot be written. Is its disk full?");
  return tandem::exit_code(tandem::ErrorKind::kResource);
}
