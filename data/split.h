// Which cases of one list are for training and which for validation: by file, by folds or by shares. Reading
// a splits_final.json is data/nnunet.
#pragma once

#include <string>
#include <vector>

#include "data/case_list.h"
#include "data/options.h"

namespace tandem {

struct CaseSets {
  std::vector<CaseEntry> train, validation, test;
};

// The cases of data.train, data.validation and data.test; or, with data.split, those of data.train divided:
//   file    fold `fold` of nnU-Net's splits_final.json; Error{kData} for ids that no case has
//   folds   k-fold with seed 12345 over the sorted ids, fold `fold` for validation: nnU-Net's own folds
//           (scikit-learn's KFold(k, shuffle=True, random_state=12345))
//   ratios  shares of train, validation and, if there are three, test, of the ids shuffled by the same
//   generator;
//           sizes are rounded, the rest goes to train
// With `group` cases whose ids agree up to the first occurrence of that text stay together; folds and shares
// then count groups. Errors of list_cases; Error{kConfig} if there are fewer groups than folds.
CaseSets case_sets(const DataOptions& data);

std::vector<CaseEntry> training_cases(const DataOptions& data);
std::vector<CaseEntry> validation_cases(const DataOptions& data);

// 0 .. n-1 in the order of numpy.random.RandomState(seed).shuffle(arange(n)).
std::vector<std::size_t> numpy_shuffled(std::size_t n, std::uint32_t seed);

}  // namespace tandem
