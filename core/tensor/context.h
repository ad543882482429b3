// What a computation is told: device, compute dtype, seed, training or not. A value that is passed in; there
// is no global mode. Threads are set once per process (core/base/parallel).
#pragma once

#include <cstdint>

#include "core/tensor/device.h"
#include "core/tensor/dtype.h"

namespace tandem {

struct Context {
  Device device = kCpuDevice;
  DType compute = DType::kF32;  // dtype of activations and of the copies of conv and linear weights
  std::uint64_t seed = 0;
  bool training = true;
  std::uint64_t draw = 0;  // number of this forward pass: with the seed it decides what ops draw at random
};

}  // namespace tandem
