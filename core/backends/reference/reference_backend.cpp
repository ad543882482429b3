// Makes the reference backend.
#include "core/backends/reference/reference_backend.h"

#include "core/backends/reference/reference_impl.h"

namespace tandem {

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tandem
