// Patches of a case file are read without the rest of it: the bytes that the process reads from files, as
// Linux counts them, stay far below the file's size.
#include <gtest/gtest.h>

#include <fstream>

#include "data/case_file.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

// Bytes of all reads of this process and of the children it has waited for; -1 where the kernel does not say.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  for (std::string word; file >> word;)
    if (word == "rchar:" && file >> word) return std::stoll(word);
  return -1;
}

float noise(std::uint32_t i) {
  i *= 2654435761u;
  return static_cast<float>((i ^ (i >> 13)) * 2246822519u >> 8);
}

class PartialRead : public ::testing::Test {
 protected:
  void SetUp() override {
    if (bytes_read() < 0) GTEST_SKIP() << "this kernel does not count bytes (/proc/self/io)";
  }
  // Bytes that `read` takes.
  template <class Read>
  static std::int64_t bytes_of(const Read& read) {
    const std::int64_t before = bytes_read();
    read();
    return bytes_read() - before;
  }
};

TEST_F(PartialRead, APatchTakesItsChunksAlone) {
  const testing::TempFolder folder;
  const std::filesystem::path path = folder / "large.h5";
  const Index3 shape{128, 128, 128};
  Volume image{testing::plain_grid(shape), 1, {}};
  LabelVolume labels_of_all{testing::plain_grid(shape), {}};
  for (std::uint32_t i = 0; i < 128 * 128 * 128; ++i) {  // nothing to compress
    image.values.push_back(noise(i));
    labels_of_all.values.push_back(static_cast<std::int32_t>(noise(i)) % 3);
  }
  write_case(path, "large", image, &labels_of_all);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  ASSERT_GT(size, 4 << 20);
  std::unique_ptr<CaseFile> source;
  EXPECT_LT(bytes_of([&] { source = std::make_unique<CaseFile>(path); }), size / 8) << "to open it";
  std::vector<float> values(8 * 8 * 8);
  std::vector<std::int32_t> labels(values.size());
  EXPECT_LT(bytes_of([&] {
              source->read_image({40, 50, 60}, {8, 8, 8}, values);
              source->read_labels({40, 50, 60}, {8, 8, 8}, labels);
            }),
            size / 8)
      << "for a patch";
  EXPECT_EQ(values[0], noise((40 * 128 + 50) * 128 + 60));
  // The counter counts: all of it is read for all of it.
  std::vector<float> all(128 * 128 * 128);
  EXPECT_GT(bytes_of([&] { source->read_image({0, 0, 0}, shape, all); }), size / 4);
}

}  // namespace
}  // namespace tandem
