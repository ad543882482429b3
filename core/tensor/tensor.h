// A dense array: shape, dtype and shared storage. Knows nothing of gradients and does no arithmetic.
//
// One native layout, channels-last: a tensor of logical shape [N, C, D, H, W] is stored N, D, H, W, C; rank 2
// [N, F] is row-major; weights [K, C, taps] are stored K, taps, C. So every tensor is a matrix of rows() x
// channels() whose rows are channel_pitch() elements apart (== channels() when packed).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/storage.h"

namespace tandem {

class Tensor {
 public:
  Tensor() = default;  // undefined
  // Uninitialised, packed.
  Tensor(const Shape& shape, DType dtype, const Device& device = kCpuDevice,
         MemoryCategory category = MemoryCategory::kActivations);
  // A view into `storage` from element `offset`; rows are `channel_pitch` elements apart.
  Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, const Shape& shape, DType dtype,
         std::int64_t channel_pitch);

  static Tensor zeros(const Shape& shape, DType dtype, const Device& device = kCpuDevice,
                      MemoryCategory category = MemoryCategory::kActivations);
  // From values in *logical* order (N, C, D, H, W row-major), converted to `dtype` (round to nearest even).
  static Tensor from_values(const Shape& shape, std::span<const double> values, DType dtype,
                            const Device& device = kCpuDevice);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const Device& device() const { return storage_->device(); }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t channels() const { return shape_.channels(); }
  std::int64_t rows() const { return channels() == 0 ? 0 : numel() / channels(); }
  std::int64_t channel_pitch() const { return channel_pitch_; }
  bool is_packed() const { return channel_pitch_ == channels() || rows() <= 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }  // in elements

  void* raw() const;
  // Pointer to the first element; check_internal that T is the dtype.
  template <class T>
  T* data() const {
    require_dtype(dtype_of<T>());
    return static_cast<T*>(raw());
  }

  // Views on the same storage.
  Tensor slice_channels(std::int64_t begin, std::int64_t count) const;  // [N, count, ...], pitched
  Tensor slice_batch(std::int64_t begin, std::int64_t count) const;     // [count, C, ...]
  // Same elements in the same *stored* order under another shape; packed tensors only.
  Tensor with_shape(const Shape& shape) const;

  // Copies. to_values: logical order, as double. clone: packed, same dtype and device.
  std::vector<double> to_values() const;
  Tensor clone(MemoryCategory category = MemoryCategory::kActivations) const;
  Tensor to_device(const Device& device, MemoryCategory category = MemoryCategory::kActivations) const;
  void set_zero() const;

 private:
  void require_dtype(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
  std::int64_t channel_pitch_ = 0;
};

// "F16 [2, 4, 32, 32, 32]"
std::string to_string(const Tensor& tensor);

}  // namespace tandem
