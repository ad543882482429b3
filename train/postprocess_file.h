// postprocess.json of a run folder: the clean-up steps that `tandem eval --learn-postprocess` found, for
// predict.postprocess: auto. docs/formats.md describes it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/postprocess.h"

namespace tandem {

// Writes FOLDER/postprocess.json, atomically. `names` of all classes, the background first.
void write_postprocess(const std::filesystem::path& folder, const PostprocessLearner::Result& learnt,
                       const std::vector<std::string>& names);
// Error{kUsage} if there is no such file, Error{kData} if it is damaged or its classes are not `names`.
Postprocess read_postprocess(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace tandem
