// Writing a new job file.
#include "apps/new_job.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"

namespace tandem {

namespace fs = std::filesystem;

std::string path_from(const fs::path& folder, const std::string& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path relative = whole.lexically_relative(folder.lexically_normal());
  return relative.empty() || *relative.begin() == ".." ? whole.string() : relative.string();
}

std::optional<fs::path> nnunet_folder(std::string_view command, const std::vector<std::string>& data) {
  constexpr const char* kFile = "dataset.json";
  std::optional<fs::path> folder;
  for (const std::string& name : data) {
    const fs::path path(name);
    std::error_code error;
    if (path.filename() == kFile && fs::is_regular_file(path, error))
      throw Error(ErrorKind::kUsage,
                  fmt::format("[{}] {}: got nnU-Net's {}, expected its folder", command, name, kFile),
                  fmt::format("Use `tandem plan {}`.", fs::absolute(path).parent_path().string()));
    if (!folder && fs::is_regular_file(path / kFile, error)) folder = path;
  }
  return folder;
}

JobOptions write_new_job(const fs::path& file, const std::string& text) {
  JobOptions job;
  parse_options(parse_yaml_text(text, file.string()), fields(job));
  make_parent_folder("job", file);
  write_file_atomically(file, text);
  return job;
}

}  // namespace tandem
