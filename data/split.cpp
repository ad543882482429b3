// Division of a list of cases.
#include "data/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "data/nnunet.h"

namespace tandem {
namespace {

constexpr std::uint32_t kSplitSeed = 12345;  // nnU-Net's

// Numbers below or equal `max` as numpy's legacy random_interval: masked, with rejection.
std::uint32_t random_interval(std::mt19937& generator, std::uint32_t max) {
  std::uint32_t mask = max;
  for (const int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
  std::uint32_t value = 0;
  do value = static_cast<std::uint32_t>(generator()) & mask;
  while (value > max);
  return value;
}

std::string group_of(const std::string& id, const std::optional<std::string>& separator) {
  return separator ? id.substr(0, id.find(*separator)) : id;
}

// Groups of cases, both sorted: nnU-Net divides the sorted ids.
std::vector<std::vector<CaseEntry>> grouped(const std::vector<CaseEntry>& cases, const SplitOptions& split) {
  std::map<std::string, std::vector<CaseEntry>> groups;
  for (const CaseEntry& entry : cases) groups[group_of(entry.id, split.group)].push_back(entry);
  std::vector<std::vector<CaseEntry>> result;
  for (auto& [name, entries] : groups) result.push_back(std::move(entries));
  return result;
}

void append(std::vector<CaseEntry>& to, const std::vector<CaseEntry>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

CaseSets split_by_folds(const std::vector<CaseEntry>& cases, const SplitOptions& split) {
  const std::vector<std::vector<CaseEntry>> groups = grouped(cases, split);
  const std::size_t n = groups.size(), folds = static_cast<std::size_t>(*split.folds),
                    fold = static_cast<std::size_t>(split.fold);
  if (n < folds)
    fail(ErrorKind::kConfig, "[data] data.split.folds: got {}, expected at most {}: the {} of data.train",
         folds, n, split.group ? "groups" : "cases");
  const std::vector<std::size_t> order = numpy_shuffled(n, kSplitSeed);
  const std::size_t begin = fold * (n / folds) + std::min(fold, n % folds);
  const std::size_t end = begin + n / folds + (fold < n % folds ? 1 : 0);
  std::vector<bool> held_out(n);
  for (std::size_t i = begin; i < end; ++i) held_out[order[i]] = true;
  CaseSets sets;
  for (std::size_t g = 0; g < n; ++g) append(held_out[g] ? sets.validation : sets.train, groups[g]);
  return sets;
}

CaseSets split_by_ratios(const std::vector<CaseEntry>& cases, const SplitOptions& split) {
  const std::vector<std::vector<CaseEntry>> groups = grouped(cases, split);
  const std::vector<double>& ratios = *split.ratios;
  const std::vector<std::size_t> order = numpy_shuffled(groups.size(), kSplitSeed);
  const auto share = [&](std::size_t i) {
    return i < ratios.size()
               ? static_cast<std::size_t>(std::nearbyint(ratios[i] * static_cast<double>(groups.size())))
               : 0;
  };
  const std::size_t validation = std::min(share(1), groups.size()),
                    test = std::min(share(2), groups.size() - validation);
  CaseSets sets;
  for (std::size_t i = 0; i < order.size(); ++i)
    append(i < validation          ? sets.validation
           : i < validation + test ? sets.test
                                   : sets.train,
           groups[order[i]]);
  return sets;
}

CaseSets split_by_file(const std::vector<CaseEntry>& cases, const SplitOptions& split) {
  const SplitIds ids = read_split_file(*split.file, split.fold);
  std::map<std::string, const CaseEntry*> by_id;
  for (const CaseEntry& entry : cases) by_id[entry.id] = &entry;
  CaseSets sets;
  std::string missing;
  const auto take = [&](const std::vector<std::string>& names, std::vector<CaseEntry>& to) {
    for (const std::string& id : names) {
      const auto it = by_id.find(id);
      if (it == by_id.end())
        missing += (missing.empty() ? "" : ", ") + id;
      else
        to.push_back(*it->second);
    }
  };
  take(ids.train, sets.train);
  take(ids.validation, sets.validation);
  if (!missing.empty())
    fail(ErrorKind::kData, "[data] {}: fold {}: got case{} {}, expected cases of data.train", *split.file,
         split.fold, missing.find(',') == std::string::npos ? "" : "s", missing);
  for (const CaseEntry& entry : sets.validation)
    if (std::any_of(sets.train.begin(), sets.train.end(),
                    [&](const CaseEntry& one) { return one.id == entry.id; }))
      fail(ErrorKind::kData, "[data] {}: fold {}: got case {} in train and val, expected it in one of them",
           *split.file, split.fold, entry.id);
  return sets;
}

std::vector<CaseEntry> cases_of_format(const std::vector<std::string>& patterns, const std::string& format) {
  std::vector<CaseEntry> cases;
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (format != "nnunet" ||
        !std::filesystem::exists(std::filesystem::path(pattern) / "dataset.json", error)) {
      append(cases, list_cases({pattern}));
      continue;
    }
    append(cases, read_nnunet_dataset(pattern).training);
  }
  for (const CaseEntry& entry : cases)
    if (is_case_file_name(entry.file()) != (format == "hdf5"))
      throw Error(
          ErrorKind::kData,
          fmt::format("[data] {}: got this file with data.format: {}, expected {}", entry.file(), format,
                      format == "hdf5" ? "*.h5, *.hdf, *.hdf5 or *.hd5" : "*.nii or *.nii.gz"),
          format == "hdf5" ? "Set data.format: nifti, or convert it with `tandem data convert`."
                           : "Set data.format: hdf5.");
  return cases;
}

}  // namespace

std::vector<std::size_t> numpy_shuffled(std::size_t n, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i-- > 1;)
    std::swap(order[i], order[random_interval(generator, static_cast<std::uint32_t>(i))]);
  return order;
}

CaseSets case_sets(const DataOptions& data) {
  const std::vector<CaseEntry> cases = cases_of_format(data.train, data.format);
  if (data.split.file) return split_by_file(cases, data.split);
  if (data.split.folds) return split_by_folds(cases, data.split);
  if (data.split.ratios) return split_by_ratios(cases, data.split);
  return {cases, cases_of_format(data.validation, data.format), cases_of_format(data.test, data.format)};
}

std::vector<CaseEntry> training_cases(const DataOptions& data) {
  if (data.split.active()) return case_sets(data).train;
  return cases_of_format(data.train, data.format);
}

std::vector<CaseEntry> validation_cases(const DataOptions& data) {
  if (data.split.active()) return case_sets(data).validation;
  return cases_of_format(data.validation, data.format);
}

}  // namespace tandem
