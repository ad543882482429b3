// Clean-up steps as JSON.
#include "train/postprocess_file.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "train/json.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "tandem postprocess 1";
constexpr std::int64_t kMaxBytes = 1 << 20;

fs::path file_in(const fs::path& folder) { return folder / "postprocess.json"; }

}  // namespace

void write_postprocess(const fs::path& folder, const PostprocessLearner::Result& learnt,
                       const std::vector<std::string>& names) {
  JsonObject classes;
  for (std::size_t c = 1; c < names.size(); ++c) {
    const std::vector<std::int32_t>& kept = learnt.steps.classes;
    classes.add(names[c], std::find(kept.begin(), kept.end(), static_cast<std::int32_t>(c)) != kept.end());
  }
  const std::string text = JsonObject()
                               .add("format", kFormat)
                               .add("foreground", learnt.steps.foreground)
                               .add("classes", classes)
                               .add("mean_dice_before", learnt.dice_before)
                               .add("mean_dice_after", learnt.dice_after)
                               .text();
  write_file_atomically(file_in(folder), text + "\n");
}

Postprocess read_postprocess(const fs::path& folder, const std::vector<std::string>& names) {
  const fs::path path = file_in(folder);
  if (!fs::exists(path))
    throw Error(ErrorKind::kUsage,
                fmt::format("[predict] predict.postprocess: auto: {}: no such file", path.string()),
                "Make it with `tandem eval RUN --learn-postprocess`.");
  const auto members = parse_json_object(read_text_file(path, kMaxBytes));
  const auto member = [&](const char* key) {
    return members && members->contains(key) ? members->at(key) : std::string();
  };
  const auto classes = parse_json_object(member("classes"));
  if (member("format") != kFormat || !classes || classes->size() + 1 != names.size())
    fail(ErrorKind::kData, "[predict] {}: got another content, expected '{}' of {} classes", path.string(),
         kFormat, names.size() - 1);
  Postprocess result{.foreground = member("foreground") == "true"};
  for (std::size_t c = 1; c < names.size(); ++c) {
    const auto entry = classes->find(names[c]);
    if (entry == classes->end())
      fail(ErrorKind::kData, "[predict] {}: classes: got no '{}', expected every class of the job",
           path.string(), names[c]);
    if (entry->second == "true") result.classes.push_back(static_cast<std::int32_t>(c));
  }
  return result;
}

}  // namespace tandem
