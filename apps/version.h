// Version and libraries of this build, for `tandem version` and `tandem doctor`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem {

// Name and run-time version of each library that decides results or files.
std::vector<std::pair<std::string, std::string>> library_versions();
// "tandem 0.1.0 (Release build, g++ 12.2.0)"
std::string version_text();

}  // namespace tandem
