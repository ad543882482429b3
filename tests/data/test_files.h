// Helpers of the data tests: a temporary folder, whole files, Python with h5py and nibabel, and errors as
// text.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace tandem::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem data XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What() of the tandem::Error that `body` throws; fails the test if it throws none of `kind`.
inline std::string error_of(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// Python of ./setup.sh --tests (numpy, h5py, nibabel, tensorboard).
inline std::string python_program() { return std::string(TANDEM_SOURCE_DIR) + "/.deps/python/bin/python"; }
// Whether that Python has `package`; looked for in its folders, as starting it takes long.
inline bool has_python(const std::string& package) {
  const std::filesystem::path library = std::string(TANDEM_SOURCE_DIR) + "/.deps/python/lib";
  std::error_code error;
  if (!std::filesystem::exists(python_program(), error)) return false;
  for (const auto& version : std::filesystem::directory_iterator(library, error))
    if (std::filesystem::is_directory(version.path() / "site-packages" / package, error)) return true;
  return false;
}
// Where CI=true nothing may be missing.
inline bool is_ci() {
  const char* value = std::getenv("CI");
  return value != nullptr && std::string(value) == "true";
}

// Runs a script with arguments; its output, or a test failure with what it printed.
inline std::string run_python(const TempFolder& folder, const std::string& script,
                              const std::vector<std::string>& arguments) {
  const std::filesystem::path file = folder / "script.py";
  write_bytes(file, script);
  std::string command = fmt::format("'{}' '{}'", python_program(), file.string());
  for (const std::string& argument : arguments) command += fmt::format(" '{}'", argument);
  command.append(" 2>&1");
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  const int status = ::pclose(pipe);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << output;
  return output;
}

#define TD_NEEDS_PYTHON(package)                                                          \
  if (!::tandem::testing::has_python(package)) {                                          \
    const std::string missing = "no " package " in .deps/python: run ./setup.sh --tests"; \
    if (::tandem::testing::is_ci()) GTEST_FAIL() << missing;                              \
    GTEST_SKIP() << missing;                                                              \
  }                                                                                       \
  static_assert(true)

}  // namespace tandem::testing
