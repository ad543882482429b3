// Making folders, with errors that say which and why.
#include "core/base/folders.h"

#include <fmt/core.h>

#include "core/base/error.h"

namespace tandem {

namespace fs = std::filesystem;

void make_folder(std::string_view where, const fs::path& folder, const std::string& hint) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::error_code ignored;
  if (error || !fs::is_directory(folder, ignored))
    throw Error(ErrorKind::kResource,
                fmt::format("[{}] {}: the folder cannot be made: {}", where, folder.string(),
                            error ? error.message() : "there is a file of this name"),
                hint);
}

void make_parent_folder(std::string_view where, const fs::path& file) {
  if (!file.has_parent_path()) return;
  make_folder(where, file.parent_path(), "Choose a folder that you may write to.");
}

}  // namespace tandem
