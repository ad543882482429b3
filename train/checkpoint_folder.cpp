// Saving under the protocol "new one complete, then the old ones go", and finding what is intact.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".h5";
constexpr std::int64_t kReserveBytes = 64'000'000;
constexpr std::int64_t kMaxPointerBytes = 4096;

std::string file_name(std::int64_t step) { return fmt::format("{}{:09d}{}", kPrefix, step, kSuffix); }

// The step in a name such as step-000001200.h5; nothing for any other name.
std::optional<std::int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() <= kPrefix.size() + kSuffix.size())
    return std::nullopt;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

std::vector<fs::path> candidate_files(const fs::path& folder) {
  std::vector<fs::path> files = list_folder(folder, ErrorKind::kCheckpoint, "checkpoint");
  std::erase_if(files, [](const fs::path& path) { return !step_of_name(path.filename().string()); });
  return files;
}

// What the header tells, without the digest.
CheckpointInfo inspect(const fs::path& path) {
  CheckpointInfo info{.path = path};
  std::error_code error;
  info.bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) info.bytes = 0;
  try {
    info.step = read_header(path).step;
    const std::int64_t named = step_of_name(path.filename().string()).value_or(info.step);
    if (named != info.step)
      info.problem = fmt::format("[checkpoint] {}: got step {} in its header, expected {} as its name says",
                                 path.string(), info.step, named);
  } catch (const Error& e) {
    info.problem = e.text();
  }
  return info;
}

void verify(CheckpointInfo& info) {
  if (!info.problem.empty()) return;
  try {
    verify_checkpoint(info.path);
  } catch (const Error& e) {
    info.problem = e.text();
  }
}

template <class Word, class IsFinite>
bool all_values(const Tensor& tensor, const IsFinite& is_finite) {
  const auto* values = tensor.data<Word>();
  for (std::int64_t row = 0; row < tensor.rows(); ++row)
    for (std::int64_t c = 0; c < tensor.channels(); ++c)
      if (!is_finite(values[row * tensor.channel_pitch() + c])) return false;
  return true;
}

bool all_finite(const Tensor& tensor) {
  const Tensor host = tensor.device().kind == DeviceKind::kCuda ? tensor.to_device(kCpuDevice) : tensor;
  switch (host.dtype()) {
    case DType::kF64:
      return all_values<double>(host, [](double x) { return std::isfinite(x); });
    case DType::kF32:
      return all_values<float>(host, [](float x) { return std::isfinite(x); });
    case DType::kF16:
      return all_values<Half>(host, [](Half x) { return (x.bits & 0x7c00) != 0x7c00; });
    case DType::kBF16:
      return all_values<BFloat16>(host, [](BFloat16 x) { return (x.bits & 0x7f80) != 0x7f80; });
    default:
      return true;
  }
}

std::string last_good(const fs::path& folder) {
  try {
    const NewestCheckpoint newest = newest_intact(folder);
    if (newest.found) return fmt::format("Last good checkpoint: step {}.", newest.found->step);
  } catch (const Error&) {
    // The folder itself is the trouble; the first error says so.
  }
  return "There is no earlier checkpoint.";
}

void check_finite(const fs::path& folder, const CheckpointContent& content) {
  for (const NamedTensor& named : content.tensors)
    if (!all_finite(named.tensor))
      throw Error(
          ErrorKind::kNumeric,
          fmt::format("[checkpoint] step {} is not saved: got a value that is not finite in {}, expected "
                      "finite ones",
                      content.step, named.name),
          last_good(folder));
}

void check_space(const fs::path& folder, std::int64_t bytes) {
  const std::int64_t needed = bytes + bytes / 10 + kReserveBytes, free = free_disk_bytes(folder);
  if (free < needed)
    throw Error(ErrorKind::kResource,
                fmt::format("[checkpoint] cannot save: disk full on {}: got {} MB free, expected {} MB",
                            folder.string(), free / 1'000'000, (needed + 999'999) / 1'000'000),
                "Free some disk space.");
}

void write_checkpoint(const fs::path& path, const CheckpointContent& content,
                      const CheckpointSaveOptions& options) {
  const std::vector<std::byte> payload = to_image(content);
  if (options.check_space)
    check_space(path.parent_path(), static_cast<std::int64_t>(payload.size() + kCheckpointHeaderBytes));
  const auto header = encode_header(
      {.payload_bytes = payload.size(), .digest = payload_digest(payload), .step = content.step});
  const std::span<const std::byte> pieces[] = {header, payload};
  write_file_atomically(path, pieces, options.verify);
}

void prune(const fs::path& folder, const CheckpointContent& content, std::int64_t keep_last) {
  std::set<std::int64_t> kept{content.step};
  for (const RankedCheckpoint& entry : content.best) kept.insert(entry.step);
  std::vector<std::int64_t> earlier;
  for (const fs::path& path : candidate_files(folder)) {
    const std::int64_t step = *step_of_name(path.filename().string());
    // One that is torn is not counted, so that keep_last usable ones remain; it stays for its owner to look
    // at.
    if (step < content.step && inspect(path).problem.empty()) earlier.push_back(step);
  }
  std::sort(earlier.rbegin(), earlier.rend());
  for (std::size_t i = 0; i < earlier.size(); ++i)
    if (static_cast<std::int64_t>(i) >= keep_last - 1 && !kept.contains(earlier[i]))
      remove_file(folder / file_name(earlier[i]));
}

void write_best_pointer(const fs::path& folder, const std::vector<RankedCheckpoint>& best) {
  std::error_code error;
  for (const RankedCheckpoint& entry : best) {
    const std::string name = file_name(entry.step);
    if (!fs::exists(folder / name, error)) continue;
    const std::optional<fs::path> current = read_pointer(folder, "best");
    if (!current || current->filename() != name) write_file_atomically(folder / "best", name + "\n");
    return;
  }
}

}  // namespace

fs::path save_checkpoint(const fs::path& folder, const CheckpointContent& content,
                         const CheckpointSaveOptions& options) {
  check_internal(content.step >= 0 && options.keep_last >= 1,
                 "save_checkpoint: step >= 0 and keep_last >= 1");
  check_finite(folder, content);
  const fs::path path = (folder.empty() ? fs::path(".") : folder) / file_name(content.step);
  try {
    write_checkpoint(path, content, options);
    write_file_atomically(folder / "latest", file_name(content.step) + "\n");
    write_best_pointer(folder, content.best);
    prune(folder, content, options.keep_last);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kResource) throw;
    throw Error(e.kind(), e.text(),
                e.hint().empty() ? last_good(folder) : e.hint() + " " + last_good(folder));
  }
  return path;
}

CheckpointContent load_checkpoint(const fs::path& path) {
  const CheckpointHeader header = read_header(path);
  check_digest(path, header);
  CheckpointContent content = read_content(path, header);
  if (content.step != header.step)
    fail(ErrorKind::kCheckpoint,
         "[checkpoint] {}: damaged header: got step {}, expected {} as in the content", path.string(),
         header.step, content.step);
  return content;
}

std::int64_t verify_checkpoint(const fs::path& path) {
  const CheckpointHeader header = read_header(path);
  check_digest(path, header);
  const std::int64_t step = read_content_step(path, header);
  if (step != header.step)
    fail(ErrorKind::kCheckpoint,
         "[checkpoint] {}: damaged header: got step {}, expected {} as in the content", path.string(),
         header.step, step);
  return step;
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& folder, bool verify_digest) {
  std::vector<CheckpointInfo> infos;
  for (const fs::path& path : candidate_files(folder)) {
    infos.push_back(inspect(path));
    if (verify_digest) verify(infos.back());
  }
  std::stable_sort(infos.begin(), infos.end(),
                   [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.step > b.step; });
  return infos;
}

NewestCheckpoint newest_intact(const fs::path& folder) {
  NewestCheckpoint newest;
  for (CheckpointInfo& info : list_checkpoints(folder)) {
    if (!newest.found) verify(info);
    if (!info.problem.empty())
      newest.rejected.push_back(std::move(info));
    else if (!newest.found)
      newest.found = std::move(info);
  }
  return newest;
}

fs::path resolve_checkpoint(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error))
      fail(ErrorKind::kCheckpoint,
           "[checkpoint] {}: got no such file or folder, expected a checkpoint or a run folder",
           path.string());
    return path;
  }
  const NewestCheckpoint newest = newest_intact(path);
  if (newest.found) {
    for (const CheckpointInfo& info : newest.rejected)
      log_warning("{} (not used: step {} is taken)", info.problem, newest.found->step);
    return newest.found->path;
  }
  std::string reasons;
  for (const CheckpointInfo& info : newest.rejected) reasons += "\n  " + info.problem;
  if (newest.rejected.empty())
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("[checkpoint] {}: got a folder without step-*.h5, expected a checkpoint", path.string()),
        "Train first, or name another run.");
  fail(ErrorKind::kCheckpoint,
       "[checkpoint] {}: got {} step-*.h5, none of them intact, expected a checkpoint{}", path.string(),
       newest.rejected.size(), reasons);
}

std::optional<fs::path> read_pointer(const fs::path& folder, std::string_view pointer) {
  std::error_code error;
  const fs::path path = folder / pointer;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  std::string name = read_text_file(path, kMaxPointerBytes);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  // Only a name: a pointer never leads out of its folder.
  if (!step_of_name(name) || !fs::is_regular_file(folder / name, error)) return std::nullopt;
  return folder / name;
}

bool rank_checkpoint(std::vector<RankedCheckpoint>& best, RankedCheckpoint candidate, bool higher_is_better,
                     std::int64_t keep) {
  if (!std::isfinite(candidate.value)) return false;
  const auto at = std::find_if(best.begin(), best.end(), [&](const RankedCheckpoint& entry) {
    return higher_is_better ? candidate.value > entry.value : candidate.value < entry.value;
  });
  const auto position = at - best.begin();
  best.insert(at, candidate);
  if (static_cast<std::int64_t>(best.size()) > keep)
    best.resize(static_cast<std::size_t>(std::max<std::int64_t>(keep, 0)));
  return position < static_cast<std::ptrdiff_t>(best.size());
}

}  // namespace tandem
