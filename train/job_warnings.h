// Settings of a job that are well formed and change nothing. What is wrong is train/job_check's.
#pragma once

#include "train/job.h"

namespace tandem {

// One warning for each key that was written and has no effect, with what would give it one. Values that are
// the default count only where they were plainly meant. A key that another one, written in a later file or
// override, made void is passed over.
void warn_without_effect(const JobOptions& job, ErrorList& warnings);

}  // namespace tandem
