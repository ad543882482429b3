// Writing a new job file.
#include "apps/new_job.h"

#include "core/base/files.h"
#include "core/base/folders.h"

namespace tandem {

namespace fs = std::filesystem;

std::string path_from(const fs::path& folder, const std::string& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path relative = whole.lexically_relative(folder.lexically_normal());
  return relative.empty() || *relative.begin() == ".." ? whole.string() : relative.string();
}

JobOptions write_new_job(const fs::path& file, const std::string& text) {
  JobOptions job;
  parse_options(parse_yaml_text(text, file.string()), fields(job));
  make_parent_folder("job", file);
  write_file_atomically(file, text);
  return job;
}

}  // namespace tandem
