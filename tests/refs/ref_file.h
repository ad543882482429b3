// Reads the reference files that make_refs.py wrote, and repeats the values it did not store.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::tests {

struct RefEntry {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

// tests/refs/NAME; the format is described in make_refs.py. Throws std::runtime_error when the file is not
// whole.
class RefFile {
 public:
  explicit RefFile(const std::string& name) {
    std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/tests/refs/" + name, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.compare(0, 8, std::string("TDREF1\n\0", 8)) != 0)
      throw std::runtime_error(name + ": no reference file");
    at_ = 8;
    while (at_ < bytes_.size()) read_entry();
  }

  const RefEntry& entry(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw std::runtime_error("no reference value " + name);
    return found->second;
  }
  const std::vector<double>& values(const std::string& name) const { return entry(name).values; }
  bool has(const std::string& name) const { return entries_.count(name) != 0; }

 private:
  template <class T>
  T take() {
    T value;
    if (at_ + sizeof(T) > bytes_.size()) throw std::runtime_error("a reference file that is cut off");
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  void read_entry() {
    const auto length = take<std::uint32_t>();
    const std::string name = bytes_.substr(at_, length);
    at_ += length;
    RefEntry entry;
    std::int64_t count = 1;
    for (auto rank = take<std::uint32_t>(); rank > 0; --rank) {
      entry.shape.push_back(take<std::int64_t>());
      count *= entry.shape.back();
    }
    for (std::int64_t i = 0; i < count; ++i) entry.values.push_back(take<double>());
    entries_[name] = std::move(entry);
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::map<std::string, RefEntry> entries_;
};

// make_refs.py's `filled`: values in [-bound, bound), exact in FP32.
inline std::vector<double> filled(std::int64_t count, std::uint32_t stream, double bound) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + stream * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    x ^= x >> 16;
    values.push_back((static_cast<double>(x >> 8) * 0x1p-23 - 1.0) * bound);
  }
  return values;
}

}  // namespace tandem::tests
