// Folders that are made for what is written into them. The files themselves are core/base/files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

// Makes `folder` and those above it; one that is there is no error. Error{kResource} "[where] FOLDER: the
// folder cannot be made: REASON" with `hint`.
void make_folder(std::string_view where, const std::filesystem::path& folder, const std::string& hint);

// The same for the folder that an output file goes to. Commands call it before they compute anything, and
// after what else can be wrong with their words.
void make_parent_folder(std::string_view where, const std::filesystem::path& file);

}  // namespace tandem
