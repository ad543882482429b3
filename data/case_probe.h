// Foreign case files are tried in a child process before this process opens them.
#pragma once

#include <filesystem>

namespace tandem {

// Opens the file, and with `whole` reads all of it, in a child process with limits (try_hdf5_in_child): to be
// called before a foreign file is opened here. Error{kData} if the library crashes, hangs or needs too much
// memory; what is merely wrong with the file is left to the reader. A file that passed is not tried again
// while its inode, size and times stay as they were; returns whether it was tried. A fork beside other
// threads can hang in an allocator without fork handlers (that of AddressSanitizer in GCC 12), so files that
// a run reads later are tried before it starts threads.
bool probe_case_file(const std::filesystem::path& path, bool whole);

}  // namespace tandem
