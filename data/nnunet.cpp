// dataset.json and splits_final.json.
#include "data/nnunet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMaxJsonBytes = std::int64_t{64} << 20;

Json read_json(const fs::path& file, const std::string& expected) {
  expect_readable(file, "nnunet", expected);
  Json json = Json::parse(read_text_file(file, kMaxJsonBytes), nullptr, false);
  if (json.is_discarded())
    fail(ErrorKind::kData, "[nnunet] {}: got no valid JSON, expected {}", file.string(), expected);
  return json;
}

[[noreturn]] void reject(const fs::path& file, const std::string& key, const Json& got,
                         const std::string& expected) {
  std::string text = got.is_discarded() || got.is_null() ? "nothing" : got.dump();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  fail(ErrorKind::kData, "[nnunet] {}: {}: got {}, expected {}", file.string(), key, text, expected);
}

// The value of `key`, which must be an object.
const Json& object_at(const fs::path& file, const Json& json, const std::string& key,
                      const std::string& expected) {
  static const Json nothing;
  const auto it = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || it == json.end()) reject(file, key, nothing, expected);
  if (!it->is_object()) reject(file, key, *it, expected);
  return *it;
}

std::int64_t label_value(const fs::path& file, const std::string& key, const Json& value) {
  if (!value.is_number_integer() || value < 0 || value > 255)
    reject(file, key, value, "a whole number from 0 to 255");
  return value.get<std::int64_t>();
}

std::vector<std::string> read_channels(const fs::path& file, const Json& json) {
  const std::string key = json.is_object() && json.contains("modality") && !json.contains("channel_names")
                              ? "modality"  // version 1's word for it
                              : "channel_names";
  const Json& channels = object_at(file, json, key, R"({"0": "CT", ...})");
  std::vector<std::string> names;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const auto it = channels.find(std::to_string(c));
    if (it == channels.end() || !it->is_string())
      reject(file, key, channels,
             fmt::format("a text for each number from \"0\" to \"{}\"", channels.size() - 1));
    names.push_back(it->get<std::string>());
  }
  if (names.empty()) reject(file, key, channels, "at least one channel");
  return names;
}

// Regions in the order in which the file lists them: nlohmann::json sorts keys, so the order comes from the
// text.
std::vector<std::string> keys_in_order(const fs::path& file) {
  const auto json = nlohmann::ordered_json::parse(read_text_file(file, kMaxJsonBytes), nullptr, false);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.at("labels").items()) keys.push_back(key);
  return keys;
}

void read_labels(const fs::path& file, const Json& json, NnunetDataset& dataset) {
  const Json& labels = object_at(file, json, "labels", R"({"background": 0, "name": 1, ...})");
  if (labels.contains("0"))
    throw Error(ErrorKind::kData,
                fmt::format("[nnunet] {}: labels: got {{\"0\": name, ...}}, expected {{name: 0, ...}}",
                            file.string()),
                "This is the form of nnU-Net version 1; turn names and numbers round.");
  std::vector<LabelClass> named;
  bool has_regions = false;
  for (const std::string& name : keys_in_order(file)) {
    const Json& value = labels.at(name);
    const std::string key = "labels." + name;
    if (name == "ignore") {
      dataset.ignore_label = label_value(file, key, value);
      continue;
    }
    LabelClass label{name, {}};
    for (const Json& item : value.is_array() ? value : Json::array({value}))
      label.values.push_back(label_value(file, key, item));
    if (label.values.empty()) reject(file, key, value, "at least one value");
    has_regions = has_regions || label.values.size() > 1;
    named.push_back(std::move(label));
  }
  if (named.empty() || named.front().name != "background" ||
      named.front().values != std::vector<std::int64_t>{0})
    reject(file, "labels", labels, "\"background\": 0 first");
  std::set<std::int64_t> values;
  for (const LabelClass& label : named) values.insert(label.values.begin(), label.values.end());
  if (dataset.ignore_label && *dataset.ignore_label != *values.rbegin() + 1)
    reject(file, "labels.ignore", *dataset.ignore_label,
           fmt::format("{}: the highest value", *values.rbegin() + 1));
  if (!has_regions) {
    dataset.labels = std::move(named);
    return;
  }
  for (const std::int64_t value : values)
    dataset.labels.push_back({value == 0 ? "background" : fmt::format("label{}", value), {value}});
  dataset.regions.assign(named.begin() + 1, named.end());
  const Json order = json.contains("regions_class_order") ? json.at("regions_class_order") : Json();
  if (!order.is_array() || order.size() != dataset.regions.size())
    reject(file, "regions_class_order", order, fmt::format("a list of {} values", dataset.regions.size()));
  for (const Json& value : order)
    dataset.region_values.push_back(label_value(file, "regions_class_order", value));
}

CaseEntry folder_case(const fs::path& folder, const std::string& id, std::size_t channels,
                      const std::string& ending) {
  CaseEntry entry{id, {}, (folder / "labelsTr" / (id + ending)).string()};
  for (std::size_t c = 0; c < channels; ++c) {
    entry.images.push_back((folder / "imagesTr" / fmt::format("{}_{:04}{}", id, c, ending)).string());
    expect_readable(entry.images.back(), "nnunet", fmt::format("channel {} of case {}", c, id));
  }
  return entry;
}

// The `dataset` list: {"case": {"images": [...], "label": ...}}, paths relative to the folder.
CaseEntry listed_case(const fs::path& folder, const fs::path& file, const std::string& id, const Json& row) {
  const std::string key = "dataset." + id, expected = R"({"images": [files], "label": file})";
  if (!row.is_object() || !row.contains("images") || !row.at("images").is_array() || row.at("images").empty())
    reject(file, key, row, expected);
  CaseEntry entry{id, {}, ""};
  const auto path_of = [&](const Json& name) {
    if (!name.is_string()) reject(file, key, name, expected);
    const fs::path path = (folder / name.get<std::string>()).lexically_normal();
    expect_readable(path, "nnunet", fmt::format("a file of case {}", id));
    return path.string();
  };
  for (const Json& name : row.at("images")) entry.images.push_back(path_of(name));
  if (row.contains("label")) entry.label = path_of(row.at("label"));
  return entry;
}

void read_cases(const fs::path& folder, const fs::path& file, const Json& json, NnunetDataset& dataset) {
  const std::size_t channels = dataset.channel_names.size();
  if (json.contains("dataset")) {
    for (const auto& [id, row] : object_at(file, json, "dataset", "{case: {images, label}}").items()) {
      dataset.training.push_back(listed_case(folder, file, id, row));
      if (dataset.training.back().images.size() != channels)
        reject(file, "dataset." + id, row, fmt::format("{} images: one per channel", channels));
    }
  } else {
    const Json ending = json.contains("file_ending") ? json.at("file_ending") : Json();
    if (ending != ".nii.gz" && ending != ".nii")
      reject(file, "file_ending", ending, "\".nii.gz\" or \".nii\"");
    std::error_code error;
    for (fs::directory_iterator it(folder / "labelsTr", error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().filename().string(), suffix = ending.get<std::string>();
      if (name.ends_with(suffix) && !name.starts_with("."))
        dataset.training.push_back(
            folder_case(folder, name.substr(0, name.size() - suffix.size()), channels, suffix));
    }
    if (error)
      fail(ErrorKind::kData, "[nnunet] {}: the folder cannot be read: {}", (folder / "labelsTr").string(),
           error.message());
  }
  std::sort(dataset.training.begin(), dataset.training.end(),
            [](const CaseEntry& a, const CaseEntry& b) { return a.id < b.id; });
  const Json count = json.contains("numTraining") ? json.at("numTraining") : Json();
  if (!count.is_number_integer() || count != dataset.training.size())
    reject(file, "numTraining", count, fmt::format("{}: the training cases found", dataset.training.size()));
}

NormalizeKind kind_of_channel(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "ct") return NormalizeKind::kCt;
  if (name == "nonorm") return NormalizeKind::kNone;
  if (name == "rescale_to_0_1") return NormalizeKind::kMinmax;
  return NormalizeKind::kZscore;
}

}  // namespace

NnunetDataset read_nnunet_dataset(const fs::path& folder) {
  const fs::path file = folder / "dataset.json";
  const Json json = read_json(file, "the dataset.json of an nnU-Net raw data folder");
  NnunetDataset dataset;
  dataset.channel_names = read_channels(file, json);
  read_labels(file, json, dataset);
  read_cases(folder, file, json, dataset);
  return dataset;
}

void complete_from_nnunet(DataOptions& data) {
  if (data.format != "nnunet" || !data.labels.empty()) return;
  if (data.train.size() != 1)
    fail(ErrorKind::kConfig,
         "[data] data.train: got {} entries with data.format: nnunet, expected one folder",
         data.train.size());
  NnunetDataset dataset = read_nnunet_dataset(data.train.front());
  data.labels = std::move(dataset.labels);
  data.regions = std::move(dataset.regions);
  data.region_values = std::move(dataset.region_values);
  data.ignore_label = dataset.ignore_label;
  if (!data.normalize.empty()) return;
  for (std::size_t c = 0; c < dataset.channel_names.size(); ++c)
    data.normalize.push_back(
        {.channel = static_cast<std::int64_t>(c), .kind = kind_of_channel(dataset.channel_names[c])});
}

SplitIds read_split_file(const fs::path& file, std::int64_t fold) {
  const std::string expected = "a list of {\"train\": [ids], \"val\": [ids]}";
  const Json json = read_json(file, expected);
  if (!json.is_array()) reject(file, "splits", json, expected);
  if (fold >= static_cast<std::int64_t>(json.size()))
    fail(ErrorKind::kConfig, "[data] data.split.fold: got {}, expected 0 to {} as {} holds {} folds", fold,
         static_cast<std::int64_t>(json.size()) - 1, file.string(), json.size());
  const Json& row = json.at(static_cast<std::size_t>(fold));
  SplitIds split;
  for (const auto& [key, ids] : {std::pair("train", &split.train), std::pair("val", &split.validation)}) {
    if (!row.is_object() || !row.contains(key) || !row.at(key).is_array())
      reject(file, fmt::format("[{}]", fold), row, "an object with lists train and val");
    for (const Json& id : row.at(key)) {
      if (!id.is_string()) reject(file, fmt::format("[{}].{}", fold, key), id, "the id of a case");
      ids->push_back(id.get<std::string>());
    }
  }
  return split;
}

}  // namespace tandem
