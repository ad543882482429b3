// The tests of known values run on the emulated device.
#include "tests/ops/test_devices.h"

#include "tests/cuda/emulator.h"

namespace tandem::testing {

std::vector<Device> test_devices() { return {emulated_device()}; }

}  // namespace tandem::testing
