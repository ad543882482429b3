// The checks of single files, and those across the set.
#include "data/check.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "data/case_file.h"
#include "data/case_probe.h"
#include "data/label_map.h"
#include "data/nifti.h"
#include "data/split.h"
#include "data/voxel_source.h"

namespace tandem {
namespace {

constexpr std::size_t kShownValues = 16;
constexpr const char* kSetNames[] = {"data.train", "data.validation", "data.test"};

// What the checks across the set need of one case.
struct Seen {
  CaseEntry entry;
  std::string id, orientation;
  std::size_t set = 0;
  std::int64_t channels = 0;
  std::uint64_t digest = 0;  // of shape and voxels, canonical
  bool readable = false;
};

class Checker {
 public:
  explicit Checker(const DataOptions* data) : data_(data) {
    if (data != nullptr) labels_.emplace(*data);
  }
  CheckReport report;

  void check_pattern(const std::string& pattern, std::size_t set);
  void check_sets();
  void check_set(const AugmentOptions& augment);
  void check_across();

 private:
  void check_case(const CaseEntry& entry, std::size_t set);
  void check_case_file(Seen& seen);
  void check_nifti(Seen& seen);
  void check_image(const Volume& image, const std::string& file);
  void check_labels(const LabelVolume& labels, const std::string& file);
  void note(Seen& seen, const Volume& image);
  void missing_labels(const Seen& seen);
  void check_orientations();
  void check_duplicates();

  void add(Severity severity, const std::string& file, std::string text) {
    report.findings.push_back({severity, file, std::move(text)});
  }
  // Runs `body`; what it throws becomes a finding.
  template <class Body>
  bool guarded(const std::string& file, Body&& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      add(Severity::kError, file, error.what());
    }
    return false;
  }

  const DataOptions* data_;
  std::optional<LabelMap> labels_;
  std::vector<Seen> seen_;
};

std::string voxel_text(std::size_t index, const Index3& shape) {
  const auto i = static_cast<std::int64_t>(index) % voxel_count(shape);
  return to_string({i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]});
}

void Checker::check_image(const Volume& image, const std::string& file) {
  const auto plane = static_cast<std::size_t>(voxel_count(image.geometry.shape()));
  for (std::int64_t c = 0; c < image.channels; ++c) {
    std::size_t bad = 0, first = 0;
    float low = INFINITY, high = -INFINITY;
    for (std::size_t i = 0; i < plane; ++i) {
      const float value = image.values[static_cast<std::size_t>(c) * plane + i];
      if (!std::isfinite(value) && bad++ == 0) first = i;
      low = std::min(low, value), high = std::max(high, value);
    }
    if (bad > 0)
      add(Severity::kError, file,
          fmt::format("channel {}: got {} not finite, expected none; the first at {} (z, y, x): {}", c,
                      counted(bad, "voxel"), voxel_text(first, image.geometry.shape()),
                      image.values[static_cast<std::size_t>(c) * plane + first]));
    else if (low == high)
      add(Severity::kWarning, file, fmt::format("channel {}: every voxel is {}", c, low));
  }
}

void Checker::check_labels(const LabelVolume& labels, const std::string& file) {
  struct Place {
    std::int64_t count = 0;
    std::size_t first = 0;
  };
  std::map<std::int32_t, Place> places;
  Place* last = nullptr;
  std::int32_t last_value = 0;
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    if (last == nullptr || labels.values[i] != last_value) {
      last_value = labels.values[i];
      last = &places.try_emplace(last_value, Place{0, i}).first->second;
    }
    ++last->count;
  }
  std::size_t shown = 0;
  bool foreground = false;
  for (const auto& [value, place] : places) {
    const std::optional<std::int64_t> cls =
        labels_ ? labels_->class_of(value) : std::optional<std::int64_t>(value);
    foreground = foreground || (cls && *cls != 0);
    if (cls || data_->other_labels == OtherLabels::kBackground || shown++ >= kShownValues) continue;
    add(Severity::kError, file,
        fmt::format("label: got value {} in {}, the first at {} (z, y, x), expected a value of data.labels",
                    value, counted(place.count, "voxel"), voxel_text(place.first, labels.geometry.shape())));
  }
  if (shown > kShownValues)
    add(Severity::kError, file,
        fmt::format("label: {} more that data.labels does not name", counted(shown - kShownValues, "value")));
  if (!foreground)
    add(Severity::kWarning, file, "label: got no foreground voxel; its patches are placed at random");
}

// Identity of an image: its shape and voxels, canonical, so that another orientation or file form is found
// too.
std::uint64_t digest_of(const Volume& image) {
  const Geometry canonical = image.geometry.canonical();
  const bool turned = canonical.axes() != image.geometry.axes();
  const std::vector<float> copy = turned ? on_grid(image, canonical).values : std::vector<float>();
  const std::vector<float>& values = turned ? copy : image.values;
  const Index3& shape = canonical.shape();
  const std::uint64_t seed = XXH3_64bits(shape.data(), sizeof(shape));
  return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(float), seed);
}

void Checker::note(Seen& seen, const Volume& image) {
  seen.channels = image.channels;
  seen.orientation = image.geometry.orientation();
  seen.digest = digest_of(image);
  seen.readable = true;
}

// Training and validation need them; files without a job may be for prediction.
void Checker::missing_labels(const Seen& seen) {
  const std::string& file = seen.entry.file();
  if (data_ == nullptr && report.unlabelled++ == 0) report.first_unlabelled = file;
  if (data_ == nullptr || seen.set == 2) return;
  add(Severity::kError, file, "got no labels, expected some. " + how_to_label(file));
}

void Checker::check_case_file(Seen& seen) {
  const std::string& file = seen.entry.file();
  std::optional<CaseFile> source;
  if (!guarded(file, [&] {
        probe_case_file(file, true);
        source.emplace(file);
      }))
    return;
  const CaseInfo& info = source->info();
  seen.id = info.id;
  const Index3& shape = info.geometry.shape();
  Volume image{info.geometry, info.channels, {}};
  if (guarded(file, [&] {
        image.values.resize(static_cast<std::size_t>(info.channels * voxel_count(shape)));
        source->read_image({0, 0, 0}, shape, image.values);
      })) {
    check_image(image, file);
    note(seen, image);
  }
  if (info.has_weights)
    guarded(file, [&] {
      std::vector<float> weights(static_cast<std::size_t>(voxel_count(shape)));
      source->read_weights({0, 0, 0}, shape, weights);
    });
  if (!info.has_labels) return missing_labels(seen);
  LabelVolume labels{info.geometry, std::vector<std::int32_t>(static_cast<std::size_t>(voxel_count(shape)))};
  if (guarded(file, [&] { source->read_labels({0, 0, 0}, shape, labels.values); }))
    check_labels(labels, file);
}

void Checker::check_nifti(Seen& seen) {
  Volume image;
  for (const std::string& file : seen.entry.images) {
    Volume channel;
    if (!guarded(file, [&] { channel = read_nifti(file); })) continue;
    check_image(channel, file);
    if (image.values.empty()) {
      image = std::move(channel);
      continue;
    }
    if (!guarded(file, [&] { expect_same_grid(image.geometry, channel.geometry, seen.entry.file(), file); }))
      continue;
    image.channels += channel.channels;
    image.values.insert(image.values.end(), channel.values.begin(), channel.values.end());
  }
  if (!image.values.empty()) note(seen, image);
  if (seen.entry.label.empty()) return missing_labels(seen);
  LabelVolume labels;
  if (!guarded(seen.entry.label, [&] { labels = read_nifti_labels(seen.entry.label); })) return;
  check_labels(labels, seen.entry.label);
  if (!image.values.empty())
    guarded(seen.entry.label, [&] {
      expect_same_grid(image.geometry.canonical(), labels.geometry.canonical(), seen.entry.file(),
                       seen.entry.label);
    });
}

void Checker::check_case(const CaseEntry& entry, std::size_t set) {
  ++report.cases;
  Seen seen{.entry = entry, .id = entry.id, .set = set};
  is_case_file_name(entry.file()) ? check_case_file(seen) : check_nifti(seen);
  if (seen.readable && data_ != nullptr)
    for (const NormalizeOptions& options : data_->normalize)
      if (options.channel >= seen.channels)
        add(Severity::kError, entry.file(),
            fmt::format("data.normalize names channel {}, but it has {}", options.channel, seen.channels));
  seen_.push_back(std::move(seen));
}

void Checker::check_pattern(const std::string& pattern, std::size_t set) {
  std::vector<CaseEntry> cases;
  guarded(pattern, [&] { cases = list_cases({pattern}); });
  for (const CaseEntry& entry : cases) check_case(entry, set);
}

void Checker::check_sets() {
  if (!data_->split.active() && data_->format != "nnunet") {
    const std::vector<std::string>* patterns[] = {&data_->train, &data_->validation, &data_->test};
    for (std::size_t set = 0; set < 3; ++set)
      for (const std::string& pattern : *patterns[set]) check_pattern(pattern, set);
    return;
  }
  CaseSets sets;
  guarded(data_->train.empty() ? "data.train" : data_->train.front(), [&] { sets = case_sets(*data_); });
  const std::vector<CaseEntry>* cases[] = {&sets.train, &sets.validation, &sets.test};
  for (std::size_t set = 0; set < 3; ++set)
    for (const CaseEntry& entry : *cases[set]) check_case(entry, set);
}

void Checker::check_orientations() {
  std::map<std::string, std::pair<std::int64_t, std::string>> orientations;
  for (const Seen& seen : seen_)
    if (seen.readable && !is_case_file_name(seen.entry.file())) {  // a case file lies as it was made to
      auto& [count, example] = orientations[seen.orientation];
      if (count++ == 0) example = seen.entry.file();
    }
  if (orientations.size() < 2) return;
  std::string text = "got files of different orientations:";
  for (const auto& [name, entry] : orientations)
    text += fmt::format(" {} ({}, as {})", name, entry.first, entry.second);
  const bool kept = data_ != nullptr && data_->orientation == Orientation::kKeep;
  add(kept ? Severity::kError : Severity::kWarning, "",
      text + (kept ? ", expected one with data.orientation: keep" : "; NIfTI images are turned to RAS"));
}

void Checker::check_duplicates() {
  for (std::size_t b = 0; b < seen_.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const Seen &one = seen_[a], &two = seen_[b];
      const bool same =
          one.readable && two.readable && one.digest == two.digest && one.channels == two.channels;
      if (one.set != two.set && (same || one.id == two.id))
        add(Severity::kError, two.entry.file(),
            fmt::format("got the same {} as {} in {}, expected no case of {} in {}",
                        same ? "image" : "case id", one.entry.file(), kSetNames[one.set], kSetNames[one.set],
                        kSetNames[two.set]));
      else if (same)
        add(Severity::kWarning, two.entry.file(), fmt::format("has the same image as {}", one.entry.file()));
    }
}

void Checker::check_across() {
  const auto first = std::find_if(seen_.begin(), seen_.end(), [](const Seen& seen) { return seen.readable; });
  for (auto it = first; it != seen_.end(); ++it)
    if (it->readable && it->channels != first->channels)
      add(Severity::kError, it->entry.file(),
          fmt::format("got {}, expected {} as {}", counted(it->channels, "channel"), first->channels,
                      first->entry.file()));
  check_orientations();
  check_duplicates();
}

// True for names with a part that says left or right: "hip_left", "Left kidney", "lung-r".
bool names_a_side(const std::string& name) {
  std::string part;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const bool letter = i < name.size() && std::isalpha(static_cast<unsigned char>(name[i])) != 0;
    if (letter) {
      part.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(name[i]))));
      continue;
    }
    if (part == "left" || part == "right" || part == "l" || part == "r") return true;
    part.clear();
  }
  return false;
}

void Checker::check_set(const AugmentOptions& augment) {
  if (std::find(augment.mirror.begin(), augment.mirror.end(), "x") == augment.mirror.end()) return;
  std::string sided;
  for (const LabelClass& label : data_->labels)
    if (names_a_side(label.name)) sided += (sided.empty() ? "" : ", ") + label.name;
  if (!sided.empty())
    add(Severity::kWarning, "",
        fmt::format("augment.mirror has x (left and right), but sides matter to {}: leave x out", sided));
}

}  // namespace

std::int64_t CheckReport::errors() const {
  return std::count_if(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.severity == Severity::kError; });
}

CheckReport check_data(const DataOptions& data, const AugmentOptions& augment) {
  Checker checker(&data);
  checker.check_sets();
  checker.check_across();
  checker.check_set(augment);
  return std::move(checker.report);
}

CheckReport check_files(const std::vector<std::string>& patterns) {
  Checker checker(nullptr);
  for (const std::string& pattern : patterns) checker.check_pattern(pattern, 0);
  checker.check_across();
  return std::move(checker.report);
}

}  // namespace tandem
