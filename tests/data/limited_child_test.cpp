// A child process that may crash, hang or eat memory, and the one line that comes of it.
#include "data/limited_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "data/case_file.h"
#include "data/case_probe.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

std::string outcome(const std::function<void()>& body, const ChildLimits& limits = {}) {
  return error_of(ErrorKind::kData, [&] { run_limited("hdf5", "a.h5", limits, body); });
}

TEST(LimitedChild, WhatReturnsIsNothing) {
  int touched = 0;
  run_limited("hdf5", "a.h5", {}, [&] { touched = 1; });
  EXPECT_EQ(touched, 0);  // it ran in the child
}

TEST(LimitedChild, ErrorsComeBackAsTheyWere) {
  try {
    run_limited("hdf5", "a.h5", {}, [] { throw Error(ErrorKind::kResource, "[x] text: got 1", "Do that."); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kResource));
    EXPECT_EQ(error.text(), "[x] text: got 1");
    EXPECT_EQ(error.hint(), "Do that.");
  }
}

TEST(LimitedChild, CrashesHangsAndHungerBecomeOneLine) {
  EXPECT_THAT(
      outcome([] { ::raise(SIGSEGV); }),
      HasSubstr("[hdf5] a.h5: got a crash of the library that reads it (signal 11, Segmentation fault)"));
  EXPECT_THAT(outcome([] { std::abort(); }), HasSubstr("signal 6"));
  EXPECT_THAT(outcome([] { ::_exit(3); }), HasSubstr("got an end of the reading process"));
  EXPECT_THAT(outcome([] { ::pause(); }, {.wall_s = 1}), HasSubstr("got no end of reading within 1 s"));
  EXPECT_THAT(outcome(
                  [] {
                    const std::atomic<bool> forever{true};
                    while (forever.load()) {
                    }
                  },
                  {.cpu_s = 1, .wall_s = 60}),
              HasSubstr("within 1 s of computing"));
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_THAT(outcome(
                  [] {
                    std::vector<char> much(std::size_t{1} << 30);
                    volatile char last = much.back();
                    static_cast<void>(last);
                  },
                  {.memory_bytes = std::int64_t{1} << 26}),
              HasSubstr("needs too much memory"));
#endif
}

// One trial for each state of a file, and a second one only where the first did not read it all.
TEST(LimitedChild, AFileThatPassedIsNotTriedAgain) {
  const testing::TempFolder folder;
  const auto write = [&](std::int64_t depth) {
    testing::write_counting_case(folder / "a.h5", {depth, 3, 3}, [](const Index3&) { return 1; });
  };
  write(4);
  EXPECT_TRUE(probe_case_file(folder / "a.h5", false));
  EXPECT_FALSE(probe_case_file(folder / "a.h5", false));
  EXPECT_TRUE(probe_case_file(folder / "a.h5", true));
  EXPECT_FALSE(probe_case_file(folder / "a.h5", true));
  EXPECT_FALSE(probe_case_file(folder / "a.h5", false));
  write(4);  // the same content, but another file
  EXPECT_TRUE(probe_case_file(folder / "a.h5", true));
}

// The library is as usable as before, in the child and here; what is merely wrong is left to the reader.
TEST(LimitedChild, CaseFilesAreReadThereFirst) {
  const testing::TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {40, 3, 3}, [](const Index3&) { return 1; });
  testing::write_bytes(folder / "b.h5", "no HDF5");
  for (const bool whole : {false, true}) {
    probe_case_file(folder / "a.h5", whole);
    probe_case_file(folder / "b.h5", whole);
  }
  EXPECT_EQ(CaseFile(folder / "a.h5").info().id, "a");
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { probe_case_file(folder / "none.h5", true); }),
              HasSubstr("got no such file"));
}

}  // namespace
}  // namespace tandem
