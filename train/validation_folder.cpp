// validation/step-N: cases.jsonl holds one line per case and one per picture.
#include "train/validation_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "train/json.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kLowest = 4, kHighest = 2;
constexpr std::int64_t kMaxCasesBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxPictureBytes = std::int64_t{16} << 20;
constexpr std::array<std::string_view, 3> kParts{"image", "truth", "prediction"};

fs::path root_of(const fs::path& run_folder) { return run_folder / "validation"; }

// Step and folder of every record, newest first.
std::vector<std::pair<std::int64_t, fs::path>> records_of(const fs::path& run_folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(root_of(run_folder), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kStepPrefix)) continue;
    std::int64_t step = 0;
    const char* const last = name.data() + name.size();
    const auto [stop, problem] = std::from_chars(name.data() + kStepPrefix.size(), last, step);
    if (problem == std::errc() && stop == last) found.emplace_back(step, at->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    fail(ErrorKind::kResource, "[validation] {}: cannot be removed: {}", path.string(), error.message());
}

std::string picture_name(std::size_t number, const CasePicture& picture, std::size_t part) {
  return fmt::format("case-{:04}-{}-{}.png", number, picture.plane, kParts[part]);
}

std::string case_lines(std::size_t number, const CaseRecord& one) {
  JsonObject line;
  line.add("kind", "case").add("case", one.id).add("mean_dice", one.mean_dice);
  for (const auto& [name, values] : one.metrics) line.add(name, values);
  std::string text = line.text() + "\n";
  for (const CasePicture& picture : one.pictures)
    text += JsonObject()
                .add("kind", "picture")
                .add("plane", picture.plane)
                .add("index", picture.index)
                .add("width_mm", picture.width_mm)
                .add("height_mm", picture.height_mm)
                .add("image", picture_name(number, picture, 0))
                .add("truth", picture_name(number, picture, 1))
                .add("prediction", picture_name(number, picture, 2))
                .text() +
            "\n";
  return text;
}

void write_plain(const fs::path& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream << bytes;
  stream.close();
  if (!stream) fail(ErrorKind::kResource, "[validation] {}: cannot be written", path.string());
}

std::string text_of(const JsonMembers& members, std::string_view key) {
  const auto it = std::ranges::find(members, key, [](const auto& member) { return member.first; });
  return it == members.end() ? std::string() : it->second;
}

CaseRecord parse_case(const JsonMembers& members) {
  CaseRecord one{.id = text_of(members, "case")};
  one.mean_dice = json_number(text_of(members, "mean_dice"), text_of(members, "mean_dice_nonfinite"));
  for (const auto& [name, text] : members) {
    const auto values = json_members(text);
    if (!values || name.ends_with("_nonfinite")) continue;
    NamedNumbers numbers;
    for (const auto& [cls, number] : *values) numbers.emplace_back(cls, json_number(number, ""));
    one.metrics.emplace_back(name, std::move(numbers));
  }
  return one;
}

// The bytes of a picture; empty if the name leads elsewhere, or the file is missing, too long or no PNG.
std::string read_picture(const fs::path& folder, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return "";
  try {
    std::string bytes = read_text_file(folder / name, kMaxPictureBytes);
    return bytes.starts_with("\x89PNG\r\n\x1a\n") ? bytes : "";
  } catch (const Error&) {
    return "";
  }
}

void parse_picture(const fs::path& folder, const JsonMembers& members, CaseRecord& one) {
  CasePicture picture{.plane = text_of(members, "plane")};
  picture.index = std::strtoll(text_of(members, "index").c_str(), nullptr, 10);
  picture.width_mm = json_number(text_of(members, "width_mm"), "");
  picture.height_mm = json_number(text_of(members, "height_mm"), "");
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    picture.png[part] = read_picture(folder, text_of(members, kParts[part]));
    if (picture.png[part].empty()) return;
  }
  if (picture.width_mm > 0 && picture.height_mm > 0) one.pictures.push_back(std::move(picture));
}

}  // namespace

void drop_middle_pictures(std::vector<CaseRecord>& cases) {
  std::vector<CaseRecord*> drawn;
  for (CaseRecord& one : cases)
    if (!one.pictures.empty()) drawn.push_back(&one);
  if (drawn.size() <= kLowest + kHighest) return;
  // A case without a score counts as the lowest: it is the one to look at.
  std::stable_sort(drawn.begin(), drawn.end(), [](const CaseRecord* a, const CaseRecord* b) {
    const auto key = [](double value) { return std::isnan(value) ? -1 : value; };
    return key(a->mean_dice) < key(b->mean_dice);
  });
  for (std::size_t i = kLowest; i + kHighest < drawn.size(); ++i) drawn[i]->pictures.clear();
}

void write_validation(const fs::path& run_folder, const ValidationRecord& record) {
  const fs::path root = root_of(run_folder), temporary = root / fmt::format(".tmp-{}", ::getpid());
  const fs::path target = root / fmt::format("{}{:09}", kStepPrefix, record.step);
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error)
    fail(ErrorKind::kResource, "[validation] {}: cannot be made: {}", temporary.string(), error.message());
  std::string lines;
  for (std::size_t i = 0; i < record.cases.size(); ++i) {
    const CaseRecord& one = record.cases[i];
    lines += case_lines(i, one);
    for (const CasePicture& picture : one.pictures)
      for (std::size_t part = 0; part < kParts.size(); ++part)
        write_plain(temporary / picture_name(i, picture, part), picture.png[part]);
  }
  write_plain(temporary / "cases.jsonl", lines);
  remove_folder(target);
  fs::rename(temporary, target, error);
  if (error)
    fail(ErrorKind::kResource, "[validation] {}: cannot be renamed: {}", temporary.string(), error.message());
  for (const auto& [step, path] : records_of(run_folder))
    if (step != record.step) remove_folder(path);
}

std::optional<ValidationRecord> read_validation(const fs::path& run_folder) {
  const auto found = records_of(run_folder);
  if (found.empty()) return std::nullopt;
  const auto& [step, folder] = found.front();
  ValidationRecord record{.step = step};
  std::error_code error;
  if (!fs::is_regular_file(folder / "cases.jsonl", error)) return record;
  std::istringstream stream(read_text_file(folder / "cases.jsonl", kMaxCasesBytes));
  for (std::string line; std::getline(stream, line);) {
    const auto members = json_members(line);
    if (!members) continue;
    const std::string kind = text_of(*members, "kind");
    if (kind == "case") record.cases.push_back(parse_case(*members));
    if (kind == "picture" && !record.cases.empty()) parse_picture(folder, *members, record.cases.back());
  }
  return record;
}

void truncate_validation(const fs::path& run_folder, std::int64_t step) {
  for (const auto& [found, path] : records_of(run_folder))
    if (found > step) remove_folder(path);
}

}  // namespace tandem
