// The oracle of the tests: every method of Backend as plain loops in double. F64 tensors in host memory only;
// slow on purpose, never chosen by a job.
#pragma once

#include <memory>

#include "core/backends/backend.h"

namespace tandem {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace tandem
