// The devices that are always there.
#include "tests/ops/test_devices.h"

namespace tandem::testing {

std::vector<Device> test_devices() { return {kReferenceDevice, kCpuDevice}; }

}  // namespace tandem::testing
