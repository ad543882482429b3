// Buffer: a tensor of a module that no gradient changes, such as running statistics. Learnable tensors are
// core/params' Parameter.
#pragma once

#include <string>

#include "core/tensor/tensor.h"

namespace tandem {

class Buffer {
 public:
  // F32 values are F64 on the reference device.
  Buffer(const Shape& shape, double initial, DType dtype = DType::kF32)
      : shape_(shape), initial_(initial), dtype_(dtype) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // The values on `device`: made with the initial value on first use, moved when another device asks.
  const Tensor& on(const Device& device);

 private:
  Shape shape_;
  double initial_;
  DType dtype_;
  Tensor value_;
};

struct NamedBuffer {
  std::string name;  // dotted, "enc0.norm1.running_mean"
  Buffer* buffer = nullptr;
};

}  // namespace tandem
