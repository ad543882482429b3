// Makes NIfTI-1 files byte by byte from the standard's field offsets, in either byte order: the tests' own
// opinion of the format, apart from the code under test.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::testing {

class NiftiBuilder {
 public:
  bool big_endian = false;
  std::vector<std::int16_t> dim{3, 1, 1, 1, 1, 1, 1, 1};  // rank, x, y, z, ...
  std::int16_t datatype = 2, bitpix = 8;
  std::array<float, 8> pixdim{1, 1, 1, 1, 1, 1, 1, 1};
  float vox_offset = 352, slope = 0, inter = 0;
  std::uint8_t units = 2;
  std::int16_t qform_code = 0, sform_code = 1;
  std::array<float, 6> quatern{};
  std::array<float, 12> srow{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  std::string magic{"n+1\0", 4};
  std::int32_t sizeof_hdr = 348;

  template <class T>
  void append(const T& value) {
    std::array<char, sizeof(T)> raw;
    std::memcpy(raw.data(), &value, sizeof(T));
    if (big_endian) std::reverse(raw.begin(), raw.end());
    data_.append(raw.data(), raw.size());
  }

  std::string bytes() const {
    std::string file(352, '\0');
    put(file, 0, sizeof_hdr);
    for (std::size_t i = 0; i < dim.size(); ++i) put(file, 40 + 2 * i, dim[i]);
    put(file, 70, datatype);
    put(file, 72, bitpix);
    for (std::size_t i = 0; i < 8; ++i) put(file, 76 + 4 * i, pixdim[i]);
    put(file, 108, vox_offset);
    put(file, 112, slope);
    put(file, 116, inter);
    put(file, 123, units);
    put(file, 252, qform_code);
    put(file, 254, sform_code);
    for (std::size_t i = 0; i < 6; ++i) put(file, 256 + 4 * i, quatern[i]);
    for (std::size_t i = 0; i < 12; ++i) put(file, 280 + 4 * i, srow[i]);
    file.replace(344, 4, magic);
    if (vox_offset > 352 && vox_offset < 1e6f) file.resize(static_cast<std::size_t>(vox_offset), 'e');
    return file + data_;
  }

 private:
  template <class T>
  void put(std::string& file, std::size_t offset, T value) const {
    std::array<char, sizeof(T)> raw;
    std::memcpy(raw.data(), &value, sizeof(T));
    if (big_endian) std::reverse(raw.begin(), raw.end());
    std::memcpy(file.data() + offset, raw.data(), sizeof(T));
  }

  std::string data_;
};

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

}  // namespace tandem::testing
