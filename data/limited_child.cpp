// fork, limits, a pipe for the error, and a deadline.
#include "data/limited_child.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <string_view>

#include "core/base/error.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxMessage = 16384;
constexpr char kFailed = 'E', kOutOfMemory = 'M', kOther = 'X';

std::int64_t address_space_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

void set_limit(__rlimit_resource resource, std::int64_t value) {
  const rlimit limit{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  ::setrlimit(resource, &limit);
}

void write_message(int descriptor, std::string_view text) {
  text = text.substr(0, kMaxMessage);
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n <= 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// "E" kind "\0" text "\0" hint.
std::string message_of(const Error& error) {
  std::string message{kFailed};
  message.push_back(static_cast<char>(error.kind()));
  return message.append(error.text()).append(1, '\0').append(error.hint());
}

[[noreturn]] void run_child(int descriptor, const ChildLimits& limits, const std::function<void()>& body) {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  for (const int fatal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(fatal, SIG_DFL);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, limits.cpu_s);
  set_limit(RLIMIT_AS, address_space_bytes() + limits.memory_bytes);
  std::string message;
  try {
    body();
  } catch (const Error& error) {
    message = message_of(error);
  } catch (const std::bad_alloc&) {
    message = kOutOfMemory;
  } catch (...) {
    message = kOther;
  }
  write_message(descriptor, message);
  ::_exit(message.empty() ? 0 : 1);
}

// What the child wrote until it closed the pipe; stops at the deadline.
struct Reply {
  std::string message;
  bool in_time = true;
};
Reply read_reply(int descriptor, std::int64_t wall_s) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(wall_s);
  Reply reply;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return {"", false};
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (ready <= 0) continue;
    const ssize_t n = ::read(descriptor, buffer.data(), buffer.size());
    if (n == 0) return reply;
    if (n > 0) reply.message.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

[[noreturn]] void fail_child(const std::string& where, const std::string& file, const std::string& what) {
  throw Error(ErrorKind::kData, fmt::format("[{}] {}: {}, expected an intact file", where, file, what),
              "The file is damaged or made to do harm; write it anew, or leave it out.");
}

[[noreturn]] void throw_reply(const std::string& where, const std::string& file, const std::string& message) {
  if (message[0] == kFailed && message.size() > 2) {
    const std::size_t end = std::min(message.find('\0', 2), message.size());
    throw Error(static_cast<ErrorKind>(message[1]), message.substr(2, end - 2),
                end < message.size() ? message.substr(end + 1) : "");
  }
  fail_child(where, file,
             message[0] == kOutOfMemory ? "got a file whose reading needs too much memory"
                                        : "got an unknown failure of the library that reads it");
}

}  // namespace

void run_limited(const std::string& where, const std::string& file, const ChildLimits& limits,
                 const std::function<void()>& body) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0)
    fail(ErrorKind::kResource, "[{}] {}: no pipe for a child process: {}", where, file, std::strerror(errno));
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    fail(ErrorKind::kResource, "[{}] {}: no child process: {}", where, file, std::strerror(error));
  }
  if (child == 0) {
    ::close(pipe_ends[0]);
    run_child(pipe_ends[1], limits, body);
  }
  ::close(pipe_ends[1]);
  const Reply reply = read_reply(pipe_ends[0], limits.wall_s);
  ::close(pipe_ends[0]);
  if (!reply.in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!reply.in_time)
    fail_child(where, file, fmt::format("got no end of reading within {} s", limits.wall_s));
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
    fail_child(where, file, fmt::format("got no end of reading within {} s of computing", limits.cpu_s));
  if (WIFSIGNALED(status))
    fail_child(where, file,
               fmt::format("got a crash of the library that reads it (signal {}, {})", WTERMSIG(status),
                           ::strsignal(WTERMSIG(status))));
  if (!reply.message.empty()) throw_reply(where, file, reply.message);
  if (status != 0)
    fail_child(where, file, fmt::format("got an end of the reading process with status {}", status));
}

}  // namespace tandem
