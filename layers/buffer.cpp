// Values of buffers, made on first use.
#include "layers/buffer.h"

#include <vector>

namespace tandem {

const Tensor& Buffer::on(const Device& device) {
  if (value_.defined() && value_.device() == device) return value_;
  if (value_.defined()) {
    value_ = value_.to_device(device, MemoryCategory::kOther);
    return value_;
  }
  const bool is_double = dtype_ == DType::kF32 && device == kReferenceDevice;
  const std::vector<double> values(static_cast<std::size_t>(shape_.numel()), initial_);
  value_ = Tensor::from_values(shape_, values, is_double ? DType::kF64 : dtype_, device);
  return value_;
}

}  // namespace tandem
