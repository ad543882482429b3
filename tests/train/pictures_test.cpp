// PNG bytes as other programs read them, and which voxels of a case end up where in a picture.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/test_files.h"
#include "train/case_pictures.h"
#include "train/html.h"

namespace tandem {
namespace {

using testing::TempFolder;
using testing::write_bytes;

// Rows of "rrggbb" of a PNG file, decoded by Python's zlib: not by the code under test.
std::string decoded(const std::string& png) {
  const TempFolder folder;
  write_bytes(folder / "p.png", png);
  return testing::run_python(folder, R"(
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, packed = 8, b""
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
    if kind == b"IHDR":
        width, height, *rest = struct.unpack(">IIBBBBB", body)
        assert rest == [8, 2, 0, 0, 0]
    if kind == b"IDAT": packed += body
    at += 12 + size
assert kind == b"IEND"
raw = zlib.decompress(packed)
for row in range(height):
    line = bytearray(raw[row * (3 * width + 1):(row + 1) * (3 * width + 1)])
    assert line.pop(0) == 1
    for i in range(3, len(line)): line[i] = (line[i] + line[i - 3]) & 255
    print(*(line[i:i + 3].hex() for i in range(0, len(line), 3)))
)",
                             {(folder / "p.png").string()});
}

TEST(Png, PixelsComeBack) {
  TD_NEEDS_PYTHON("numpy");
  Picture picture(3, 2);
  picture.at(0, 0) = {255, 0, 1};
  picture.at(0, 1) = {0, 255, 2};
  picture.at(0, 2) = {9, 8, 7};
  picture.at(1, 2) = {1, 2, 3};
  EXPECT_EQ(decoded(encode_png(picture)), "ff0001 00ff02 090807\n000000 000000 010203\n");
}

TEST(Png, ClassColorsDiffer) {
  std::vector<Rgb> colors;
  for (int cls = 0; cls <= 40; ++cls) colors.push_back(class_color(cls));
  std::sort(colors.begin(), colors.end());
  EXPECT_EQ(std::unique(colors.begin(), colors.end()), colors.end());
  EXPECT_EQ(css_color({47, 116, 208}), "#2f74d0");
}

TEST(Html, Base64IsThatOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, code] : vectors) EXPECT_EQ(base64(text), code);
}

// Shape [2, 3, 4]; the image counts its voxels; one voxel of class 1 at (1, 0, 3), predicted at (1, 0, 2).
class DrawCase : public ::testing::Test {
 protected:
  DrawCase() : truth_(24), prediction_(24) {
    view_.shape = {2, 3, 4};
    view_.spacing_mm = {3, 2, 1};
    view_.read_image = [](const Index3& begin, const Index3& size, std::span<float> values) {
      std::size_t i = 0;
      for (std::int64_t z = 0; z < size[0]; ++z)
        for (std::int64_t y = 0; y < size[1]; ++y)
          for (std::int64_t x = 0; x < size[2]; ++x)
            values[i++] = static_cast<float>((begin[0] + z) * 12 + (begin[1] + y) * 4 + begin[2] + x);
    };
    truth_[15] = 1;
    prediction_[14] = 1;
    view_.truth = truth_;
    view_.prediction = prediction_;
  }
  std::vector<std::int32_t> truth_, prediction_;
  CaseView view_;
};

TEST_F(DrawCase, PlanesGoThroughTheForeground) {
  const auto pictures = draw_case(view_);
  ASSERT_EQ(pictures.size(), 3u);
  EXPECT_EQ(pictures[0].plane, "axial");
  EXPECT_EQ(pictures[0].index, 1);
  EXPECT_EQ(pictures[1].plane, "coronal");
  EXPECT_EQ(pictures[1].index, 0);
  EXPECT_EQ(pictures[0].width_mm, 4);   // x
  EXPECT_EQ(pictures[0].height_mm, 6);  // y
  EXPECT_EQ(pictures[1].height_mm, 6);  // z
  EXPECT_EQ(pictures[2].width_mm, 6);   // y
}

TEST_F(DrawCase, AnAxialPlaneIsSeenFromBelowWithTheFrontUp) {
  TD_NEEDS_PYTHON("numpy");
  const auto pictures = draw_case(view_);
  // Row 0 is y = 2 (front), column 0 is x = 3 (the patient's right): values 23 22 21 20 / 19 .. 16 / 15
  // .. 12.
  EXPECT_EQ(decoded(pictures[0].png[0]),
            "ffffff e7e7e7 d0d0d0 b9b9b9\na2a2a2 8b8b8b 737373 5c5c5c\n454545 2e2e2e 171717 000000\n");
  // Truth at x = 3, y = 0: last row, first column; 0.55 (47, 116, 208) + 0.45 0x45.
  EXPECT_EQ(decoded(pictures[0].png[1]).substr(56, 13), "395f91 2e2e2e");
  EXPECT_EQ(decoded(pictures[0].png[2]).substr(56, 13), "454545 2f5587");
}

TEST_F(DrawCase, UnlabelledVoxelsAreDarkened) {
  TD_NEEDS_PYTHON("numpy");
  truth_[23] = -1;
  const auto pictures = draw_case(view_);
  EXPECT_EQ(decoded(pictures[0].png[1]).substr(0, 6), "808080");
}

TEST_F(DrawCase, AFlatCaseHasOnePlane) {
  view_.shape = {1, 4, 6};
  EXPECT_EQ(draw_case(view_).size(), 1u);
}

}  // namespace
}  // namespace tandem
