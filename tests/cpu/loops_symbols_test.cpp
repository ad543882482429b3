// The object files of the instruction-set levels define no symbol that the linker may merge: a copy of a
// shared inline function made for AVX-512 must never run on a machine without.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

namespace tandem {
namespace {

// The levels' folders of object files, and a name that each defines. That of the tiles also has v4 code.
constexpr std::array<std::pair<const char*, const char*>, 4> kFolders{
    {{"v2", "isa_v2"}, {"v3", "isa_v3"}, {"v4", "isa_v4"}, {"tiles", "run_tile_row_amx"}}};

// Lines of `nm` on every object file of a level, or an empty string without nm.
std::string symbols(const std::filesystem::path& folder) {
  const std::string command =
      "find '" + folder.string() + "' -name '*.o' -exec nm -C --defined-only {} + 2>/dev/null";
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) text += buffer.data();
  pclose(pipe);
  return text;
}

TEST(LoopsSymbols, NoWeakSymbolLeavesALevel) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers add weak symbols of their own";
#endif
  const std::filesystem::path build = std::filesystem::path(TANDEM_PROGRAM).parent_path().parent_path();
  for (const auto& [name, defined] : kFolders) {
    const std::string level = name;
    const std::string text =
        symbols(build / "CMakeFiles" / ("tandem_cpu_" + level + ".dir") / "core/backends/cpu");
    if (text.find(defined) == std::string::npos)
      GTEST_SKIP() << "no nm, or no object files under " << build.string();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.empty() || line.back() == ':') continue;  // the name of a file
      const bool weak = line.size() > 18 && std::string("WVuwv").find(line[17]) != std::string::npos;
      EXPECT_TRUE(!weak || line.find("DW.ref.__gxx_personality") != std::string::npos)
          << level << ": " << line;
    }
  }
}

}  // namespace
}  // namespace tandem
