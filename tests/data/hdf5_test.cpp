// The HDF5 wrapper: images in memory, boxes, attributes, texts, agreement with h5py, and what it refuses to
// read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "data/hdf5_file.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;
using testing::write_bytes;

using Sizes = std::vector<std::int64_t>;

template <class T>
std::vector<T> counting(std::size_t n) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), T{1});
  return values;
}

std::vector<std::byte> example_image() {
  Hdf5File file = Hdf5File::create_image();
  file.write<float>("/a/b/f32", Sizes{2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6.5f});
  file.write<double>("/a/f64", Sizes{1}, std::vector<double>{0.1});
  file.write<std::int32_t>("/i32", Sizes{4}, std::vector<std::int32_t>{-1, 0, 1, 2147483647},
                           {.chunk = {2}, .deflate = 1, .shuffle = true});
  file.write<std::int64_t>("/i64", Sizes{}, std::vector<std::int64_t>{-9223372036854775807});
  file.write<std::uint8_t>("/u8", Sizes{0, 5}, std::vector<std::uint8_t>{});
  file.write<std::uint16_t>("/u16", Sizes{2}, std::vector<std::uint16_t>{7, 65535});
  file.write_text("/text", "line 1\nline 2 \xc3\xa4");
  file.write_text("/empty", "");
  file.write_attribute("/", "format", std::vector<std::string>{"tandem"});
  file.write_attribute("/i32", "names", std::vector<std::string>{"one", "", "three"});
  file.write_attribute("/i32", "affine", std::vector<double>{1, 2, 3, 4}, Sizes{2, 2});
  file.write_attribute("/a", "step", std::vector<std::int64_t>{1234567890123});
  return file.image();
}

void expect_example(const Hdf5File& file) {
  EXPECT_EQ(file.read<float>("/a/b/f32"), (std::vector<float>{1, 2, 3, 4, 5, 6.5f}));
  EXPECT_EQ(file.info("/a/b/f32").shape, (Sizes{2, 3}));
  EXPECT_EQ(file.info("/a/b/f32").type, NumberType::kF32);
  EXPECT_EQ(file.read<double>("/a/f64"), std::vector<double>{0.1});
  EXPECT_EQ(file.read<std::int32_t>("/i32"), (std::vector<std::int32_t>{-1, 0, 1, 2147483647}));
  EXPECT_EQ(file.read<std::int64_t>("/i64"), std::vector<std::int64_t>{-9223372036854775807});
  EXPECT_EQ(file.info("/i64").shape, Sizes{});
  EXPECT_EQ(file.info("/u8").shape, (Sizes{0, 5}));
  EXPECT_TRUE(file.read<std::uint8_t>("/u8").empty());
  EXPECT_EQ(file.read<std::uint16_t>("/u16"), (std::vector<std::uint16_t>{7, 65535}));
  EXPECT_EQ(file.read_text("/text"), "line 1\nline 2 \xc3\xa4");
  EXPECT_EQ(file.read_text("/empty"), "");
  EXPECT_THAT(file.children("/"), ElementsAre("a", "empty", "i32", "i64", "text", "u16", "u8"));
  EXPECT_THAT(file.children("/a"), ElementsAre("b", "f64"));
  EXPECT_TRUE(file.exists("/a/b/f32"));
  EXPECT_FALSE(file.exists("/a/c/f32"));
  EXPECT_TRUE(file.is_group("/a"));
  EXPECT_FALSE(file.is_group("/i32"));
  EXPECT_THAT(file.read_texts("/", "format"), ElementsAre("tandem"));
  EXPECT_THAT(file.read_texts("/i32", "names"), ElementsAre("one", "", "three"));
  EXPECT_THAT(file.read_numbers("/i32", "affine"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(file.read_integers("/a", "step"), ElementsAre(1234567890123));
  EXPECT_TRUE(file.has_attribute("/a", "step"));
  EXPECT_FALSE(file.has_attribute("/a", "stop"));
}

TEST(Hdf5, MemoryImageAndFileHoldTheSame) {
  const TempFolder folder;
  const std::vector<std::byte> image = example_image();
  expect_example(Hdf5File::open_image(image, "image"));
  write_bytes(folder / "a.h5", std::string(reinterpret_cast<const char*>(image.data()), image.size()));
  expect_example(Hdf5File::open(folder / "a.h5"));
}

TEST(Hdf5, SameWritesGiveTheSameBytes) {
  const std::vector<std::byte> first = example_image();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a stored time in seconds would differ
  EXPECT_EQ(first, example_image());
}

TEST(Hdf5, ImagesOpenAtTheSameTimeAreApart) {
  Hdf5File one = Hdf5File::create_image(), two = Hdf5File::create_image();
  one.write<std::int32_t>("/v", Sizes{1}, std::vector<std::int32_t>{1});
  two.write<std::int32_t>("/v", Sizes{1}, std::vector<std::int32_t>{2});
  const Hdf5File a = Hdf5File::open_image(one.image(), "same"), b = Hdf5File::open_image(two.image(), "same");
  EXPECT_EQ(a.read<std::int32_t>("/v"), std::vector<std::int32_t>{1});
  EXPECT_EQ(b.read<std::int32_t>("/v"), std::vector<std::int32_t>{2});
}

TEST(Hdf5, ReadsBoxes) {
  Hdf5File file = Hdf5File::create_image();
  file.write<std::int16_t>("/v", Sizes{4, 5, 6}, counting<std::int16_t>(120),
                           {.chunk = {2, 2, 2}, .deflate = 1, .shuffle = true});
  const Hdf5File read = Hdf5File::open_image(file.image(), "image");
  std::vector<float> box(2 * 1 * 3);
  read.read_box("/v", NumberType::kF32, Sizes{1, 4, 2}, Sizes{2, 1, 3},
                std::as_writable_bytes(std::span(box)));
  const auto at = [](int z, int y, int x) { return static_cast<float>(1 + (z * 5 + y) * 6 + x); };
  EXPECT_EQ(box, (std::vector<float>{at(1, 4, 2), at(1, 4, 3), at(1, 4, 4), at(2, 4, 2), at(2, 4, 3),
                                     at(2, 4, 4)}));
  const auto bytes = std::as_writable_bytes(std::span(box));
  for (const Sizes& begin : {Sizes{3, 4, 2}, Sizes{-1, 0, 0}, Sizes{1, 5, 2}})
    EXPECT_THAT(error_of(ErrorKind::kData,
                         [&] {
                           read.read_box("/v", NumberType::kF32, begin, Sizes{2, 1, 3}, bytes);
                         }),
                HasSubstr("expected a box within [4, 5, 6]"));
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { read.read_box("/v", NumberType::kF32, Sizes{0}, Sizes{6}, bytes); }),
      HasSubstr("got begin [0] size [6]"));
}

TEST(Hdf5, ErrorsNameFileAndObject) {
  const TempFolder folder;
  const Hdf5File file = Hdf5File::open_image(example_image(), "image.h5");
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.info("/none"); }),
              HasSubstr("[hdf5] image.h5: /none: got nothing of this name"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.info("/a"); }),
              HasSubstr("/a: got a group, expected a dataset"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.info("/text"); }), HasSubstr("/text: type"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.read_text("/i32"); }), HasSubstr("expected one text"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.children("/i32"); }), HasSubstr("expected a group"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.read_numbers("/i32", "none"); }),
              HasSubstr("/i32@none: got no such attribute"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.read_numbers("/i32", "names"); }),
              HasSubstr("expected integers"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { Hdf5File::open(folder / "none.h5"); }),
              HasSubstr("got no such file"));
  write_bytes(folder / "text.h5", std::string(5000, 'x'));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { Hdf5File::open(folder / "text.h5"); }),
              HasSubstr("no intact HDF5 file"));
  std::vector<std::byte> image = example_image();
  image.resize(image.size() - 100);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { Hdf5File::open_image(image, "cut"); }),
              HasSubstr("truncated file"));
}

TEST(Hdf5, LimitsAreCheckedBeforeReading) {
  Hdf5File file = Hdf5File::create_image();
  file.write<std::uint8_t>("/v", Sizes{10, 10}, counting<std::uint8_t>(100), {.chunk = {10, 10}});
  const auto image = file.image();
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { Hdf5File::open_image(image, "i", {.dataset_bytes = 99}).info("/v"); }),
      HasSubstr("shape: got [10, 10], expected at most 99 bytes"));
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { Hdf5File::open_image(image, "i", {.chunk_bytes = 99}).info("/v"); }),
      HasSubstr("chunk: got"));
  EXPECT_EQ(Hdf5File::open_image(image, "i", {.dataset_bytes = 100, .chunk_bytes = 100}).info("/v").count(),
            100);
}

TEST(Hdf5, ManyThreadsMayRead) {
  Hdf5File file = Hdf5File::create_image();
  file.write<std::int32_t>("/v", Sizes{64, 64}, counting<std::int32_t>(4096),
                           {.chunk = {8, 8}, .deflate = 1});
  const Hdf5File read = Hdf5File::open_image(file.image(), "image");
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t row = 0; row < 64; ++row) {
        std::array<std::int32_t, 64> values{};
        read.read_box("/v", NumberType::kI32, Sizes{row, 0}, Sizes{1, 64},
                      std::as_writable_bytes(std::span(values)));
        if (values[0] != row * 64 + 1 || values[63] != row * 64 + 64) ++wrong[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Hdf5, H5pyReadsWhatWeWriteAndWeReadWhatH5pyWrites) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  const std::vector<std::byte> image = example_image();
  write_bytes(folder / "a.h5", std::string(reinterpret_cast<const char*>(image.data()), image.size()));
  EXPECT_EQ(run_python(folder, R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    print(f['a/b/f32'][...].tolist(), f['i32'].dtype, f['i64'][()], f['u8'].shape, f['text'][()].decode().split('\n')[0])
    print(f.attrs['format'][0].decode(), f['i32'].attrs['affine'].tolist(), [n.decode() for n in f['i32'].attrs['names']])
with h5py.File(sys.argv[2], 'w') as f:
    f['x'] = np.arange(6, dtype='>i2').reshape(2, 3)
    f.create_dataset('y', data=np.linspace(0, 1, 5), compression='gzip', shuffle=True, fletcher32=True)
    f['x'].attrs['case_id'] = 'patient \u00e4'
    f['x'].attrs['channel_names'] = ['ct', 'pet']
    f['x'].attrs['spacing'] = (1, 2, 3)
)",
                       {(folder / "a.h5").string(), (folder / "b.h5").string()}),
            "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]] int32 -9223372036854775807 (0, 5) line 1\n"
            "tandem [[1.0, 2.0], [3.0, 4.0]] ['one', '', 'three']\n");
  const Hdf5File file = Hdf5File::open(folder / "b.h5");
  EXPECT_EQ(file.read<float>("x"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.read<double>("/y"), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_THAT(file.read_texts("x", "case_id"), ElementsAre("patient \xc3\xa4"));
  EXPECT_THAT(file.read_texts("x", "channel_names"), ElementsAre("ct", "pet"));
  EXPECT_THAT(file.read_numbers("x", "spacing"), ElementsAre(1, 2, 3));
}

TEST(Hdf5, RefusesWhatPointsElsewhereOrLiesAboutItsSize) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  run_python(folder, R"(
import sys, h5py, numpy as np
open(sys.argv[1] + '/secret', 'wb').write(b'0123456789abcdef')
with h5py.File(sys.argv[1] + '/other.h5', 'w') as f: f['v'] = np.arange(4)
with h5py.File(sys.argv[1] + '/bad.h5', 'w') as f:
    f['real'] = np.arange(4)
    f['soft'] = h5py.SoftLink('/real')
    f['outside'] = h5py.ExternalLink('other.h5', '/v')
    f.create_dataset('external', (16,), 'u1', external=[(sys.argv[1] + '/secret', 0, 16)])
    layout = h5py.VirtualLayout((4,), 'i8'); layout[:] = h5py.VirtualSource(sys.argv[1] + '/other.h5', 'v', (4,))
    f.create_virtual_dataset('virtual', layout)
    f.create_dataset('lzf', data=np.arange(100), compression='lzf')
    f.create_dataset('bomb', (1 << 20, 1 << 20), 'u1', chunks=(1024, 1024))
    f.create_dataset('huge', (1 << 40, 1 << 40, 1 << 40), 'f8', chunks=(8, 8, 8))
    f.create_dataset('chunk', (1 << 30,), 'u1', chunks=(1 << 30,))
    f['complex'] = np.zeros(3, complex)
    f['bool'] = np.zeros(3, bool)
)",
             {folder.path().string()});
  const Hdf5File file = Hdf5File::open(folder / "bad.h5");
  EXPECT_EQ(file.read<std::int64_t>("real"), (std::vector<std::int64_t>{0, 1, 2, 3}));
  const std::pair<const char*, const char*> cases[] = {{"soft", "got a soft link"},
                                                       {"outside", "got a external link"},
                                                       {"external", "kept in another file"},
                                                       {"virtual", "layout: got virtual"},
                                                       {"lzf", "filter: got 32000 'lzf'"},
                                                       {"bomb", "declared bytes but only 0 stored"},
                                                       {"huge", "shape: got"},
                                                       {"chunk", "chunk: got"},
                                                       {"complex", "type: got"},
                                                       {"bool", "type: got"}};
  for (const auto& [name, expected] : cases) {
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.info(name); }), HasSubstr(expected)) << name;
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { file.read<std::uint8_t>(name); }), HasSubstr(expected))
        << name;
  }
}

// libhdf5 1.10 follows a null pointer where its first allocations fail: room is asked for before.
TEST(Hdf5, WithoutMemoryItIsAnErrorOfResources) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers map terabytes";
#endif
  const TempFolder folder;
  const auto file = folder / "a.h5";
  const std::vector<std::byte> bytes = example_image();
  write_bytes(file, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  Hdf5File begun = Hdf5File::create_image();
  const std::vector<std::function<void()>> uses{
      [] { Hdf5File::create_image(); }, [&] { Hdf5File::open(file); },
      [&] { Hdf5File::open_image(bytes, "b.h5"); },
      [&] { begun.write<double>("/x", Sizes{1}, std::vector<double>{1}); }};
  for (const auto& use : uses) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::int64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const auto most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (1 << 20));
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_AS, &limit);
      try {
        use();
      } catch (const Error& error) {
        ::_exit(exit_code(error.kind()));
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << "use " << &use - uses.data();
    EXPECT_EQ(WEXITSTATUS(status), 6) << "use " << &use - uses.data();
  }
}

}  // namespace
}  // namespace tandem
