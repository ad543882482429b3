// The disk cache: prepared cases in brick files, made once and shared by runs. The file itself is
// data/brick_file; what preparing means is data/prepared_case.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "data/brick_file.h"
#include "data/case_list.h"
#include "data/options.h"
#include "data/prepared_case.h"

namespace tandem {

// data.cache_folder, or .tandem-cache beside the first training case, or, where that cannot be made or
// written, a folder in the system's folder for temporary files. Made if it is missing; Error{kResource} if
// none can be.
std::filesystem::path cache_folder(const DataOptions& data);

// Digest of the content of the case's files and of every option that decides what is prepared from them.
CacheKey cache_key(const CaseEntry& entry, const DataOptions& data);

// The case from `folder`, prepared and written there first if it is not there or not whole. Processes that
// want the same case wait for the one that makes it; what a killed one left is removed.
std::unique_ptr<PreparedCase> open_cached(const CaseEntry& entry, const DataOptions& data,
                                          const std::filesystem::path& folder);

// Bytes that cached cases may take in memory: data.cache_bytes, but at most a quarter of what is free now
// (data/free_memory), for the model's activations come after them, and a tenth less than all of it while
// `reading_bytes` are needed to prepare one case.
std::int64_t memory_for_cases(const DataOptions& data, std::int64_t reading_bytes = 0);

}  // namespace tandem
