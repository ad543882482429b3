// The process's table device -> backend. Rows are made explicitly here, never by static constructors.
#include "core/backends/backend.h"

#include <mutex>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/error.h"

namespace tandem {
namespace {

struct BackendTable {
  std::mutex mutex;
  std::vector<std::unique_ptr<Backend>> rows;
};

BackendTable& backend_table() {
  static BackendTable table;
  return table;
}

std::unique_ptr<Backend> make_backend(const Device& device) {
  if (device == kCpuDevice) return make_cpu_backend();
  if (device == kReferenceDevice) return make_reference_backend();
  throw Error(ErrorKind::kDevice,
              fmt::format("[device] {}: no backend for this device is loaded", name(device)),
              "Use device: cpu.");
}

}  // namespace

Backend& backend_of(const Device& device) {
  BackendTable& table = backend_table();
  const std::lock_guard lock(table.mutex);
  for (const auto& backend : table.rows)
    if (backend->device() == device) return *backend;
  table.rows.push_back(make_backend(device));
  return *table.rows.back();
}

void register_backend(std::unique_ptr<Backend> backend) {
  BackendTable& table = backend_table();
  const std::lock_guard lock(table.mutex);
  for (auto& row : table.rows)
    if (row->device() == backend->device()) {
      row = std::move(backend);
      return;
    }
  table.rows.push_back(std::move(backend));
}

}  // namespace tandem
