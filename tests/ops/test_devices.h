// The devices that the tests of known values run on: each test program has its own list.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/tensor/device.h"

namespace tandem::testing {

std::vector<Device> test_devices();

// As part of a test's name.
inline std::string device_name(const Device& device) {
  std::string text = name(device);
  std::ranges::replace(text, ':', '_');
  return text;
}

}  // namespace tandem::testing
