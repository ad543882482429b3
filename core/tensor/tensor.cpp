// Storage, and the views and host copies of a tensor.
#include "core/tensor/tensor.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/tensor/layout.h"

namespace tandem {
namespace {

std::uint64_t next_storage_id() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

double load(const void* base, std::int64_t i, DType dtype) {
  const auto at = static_cast<std::size_t>(i);
  switch (dtype) {
    case DType::kF64:
      return static_cast<const double*>(base)[at];
    case DType::kF32:
      return static_cast<const float*>(base)[at];
    case DType::kF16:
      return to_float(static_cast<const Half*>(base)[at]);
    case DType::kBF16:
      return to_float(static_cast<const BFloat16*>(base)[at]);
    case DType::kI64:
      return static_cast<double>(static_cast<const std::int64_t*>(base)[at]);
    case DType::kI32:
      return static_cast<const std::int32_t*>(base)[at];
    case DType::kI16:
      return static_cast<const std::int16_t*>(base)[at];
    case DType::kU8:
      return static_cast<const std::uint8_t*>(base)[at];
  }
  return 0;
}

// x in float with the last bit set where x is not a float: rounding that to 16 bits is rounding x, once.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || !std::isfinite(nearest)) return nearest;
  if ((std::bit_cast<std::uint32_t>(nearest) & 1u) != 0) return nearest;
  return std::nextafter(nearest, x > static_cast<double>(nearest) ? INFINITY : -INFINITY);
}

void store(void* base, std::int64_t i, DType dtype, double value) {
  const auto at = static_cast<std::size_t>(i);
  switch (dtype) {
    case DType::kF64:
      static_cast<double*>(base)[at] = value;
      break;
    case DType::kF32:
      static_cast<float*>(base)[at] = static_cast<float>(value);
      break;
    case DType::kF16:
      static_cast<Half*>(base)[at] = to_half(round_to_odd(value));
      break;
    case DType::kBF16:
      static_cast<BFloat16*>(base)[at] = to_bfloat16(round_to_odd(value));
      break;
    case DType::kI64:
      static_cast<std::int64_t*>(base)[at] = static_cast<std::int64_t>(value);
      break;
    case DType::kI32:
      static_cast<std::int32_t*>(base)[at] = static_cast<std::int32_t>(value);
      break;
    case DType::kI16:
      static_cast<std::int16_t*>(base)[at] = static_cast<std::int16_t>(value);
      break;
    case DType::kU8:
      static_cast<std::uint8_t*>(base)[at] = static_cast<std::uint8_t>(value);
      break;
  }
}

}  // namespace

Storage::Storage(const Device& device, std::size_t bytes, MemoryCategory category)
    : allocator_(allocator_of(device)),
      device_(device),
      category_(category),
      bytes_(bytes),
      data_(allocator_->allocate(bytes, category)),
      id_(next_storage_id()) {}

Storage::~Storage() { allocator_->free(data_, bytes_, category_); }

Tensor::Tensor(const Shape& shape, DType dtype, const Device& device, MemoryCategory category)
    : storage_(std::make_shared<Storage>(device, static_cast<std::size_t>(shape.numel()) * size_of(dtype),
                                         category)),
      shape_(shape),
      dtype_(dtype),
      channel_pitch_(shape.channels()) {}

Tensor::Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, const Shape& shape, DType dtype,
               std::int64_t channel_pitch)
    : storage_(std::move(storage)),
      offset_(offset),
      shape_(shape),
      dtype_(dtype),
      channel_pitch_(channel_pitch) {
  check_internal(channel_pitch_ >= channels(), "a channel pitch smaller than the channels");
  const std::int64_t last = rows() == 0 ? 0 : offset_ + (rows() - 1) * channel_pitch_ + channels();
  check_internal(static_cast<std::size_t>(last) * size_of(dtype) <= storage_->bytes(),
                 "a view beyond its storage");
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, const Device& device, MemoryCategory category) {
  const Tensor result(shape, dtype, device, category);
  result.set_zero();
  return result;
}

Tensor Tensor::from_values(const Shape& shape, std::span<const double> values, DType dtype,
                           const Device& device) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    fail(ErrorKind::kShape, "[tensor] got {} values, expected {} for shape {}", values.size(), shape.numel(),
         to_string(shape));
  Tensor host(shape, dtype, device.kind == DeviceKind::kCuda ? kCpuDevice : device);
  for_each_element(shape, host.channel_pitch(), [&](std::int64_t logical, std::int64_t stored) {
    store(host.raw(), stored, dtype, values[static_cast<std::size_t>(logical)]);
  });
  return host.device() == device ? host : host.to_device(device);
}

void* Tensor::raw() const {
  check_internal(defined(), "data of an undefined tensor");
  return static_cast<std::byte*>(storage_->data()) + static_cast<std::size_t>(offset_) * size_of(dtype_);
}

void Tensor::require_dtype(DType dtype) const {
  if (dtype != dtype_)
    fail(ErrorKind::kInternal, "[tensor] data asked for as {}, the tensor is {}", name(dtype),
         to_string(*this));
}

Tensor Tensor::slice_channels(std::int64_t begin, std::int64_t count) const {
  check_internal(shape_.rank() >= 2 && begin >= 0 && count >= 0 && begin + count <= channels(),
                 "channel slice out of range");
  return {storage_, offset_ + begin, shape_.with(1, count), dtype_, channel_pitch_};
}

Tensor Tensor::slice_batch(std::int64_t begin, std::int64_t count) const {
  check_internal(shape_.rank() >= 2 && begin >= 0 && count >= 0 && begin + count <= shape_[0],
                 "batch slice out of range");
  const std::int64_t rows_each = shape_[0] == 0 ? 0 : rows() / shape_[0];
  return {storage_, offset_ + begin * rows_each * channel_pitch_, shape_.with(0, count), dtype_,
          channel_pitch_};
}

Tensor Tensor::with_shape(const Shape& shape) const {
  check_internal(is_packed() && shape.numel() == numel(),
                 "with_shape needs a packed tensor of the same size");
  return {storage_, offset_, shape, dtype_, shape.channels()};
}

std::vector<double> Tensor::to_values() const {
  if (device().kind == DeviceKind::kCuda) return to_device(kCpuDevice, MemoryCategory::kOther).to_values();
  std::vector<double> values(static_cast<std::size_t>(numel()));
  for_each_element(shape_, channel_pitch_, [&](std::int64_t logical, std::int64_t stored) {
    values[static_cast<std::size_t>(logical)] = load(raw(), stored, dtype_);
  });
  return values;
}

Tensor Tensor::clone(MemoryCategory category) const {
  Tensor copy(shape_, dtype_, device(), category);
  DeviceMemory& memory = storage_->allocator().memory();
  const std::size_t row_bytes = static_cast<std::size_t>(channels()) * size_of(dtype_);
  if (is_packed()) {
    memory.copy(copy.raw(), raw(), static_cast<std::size_t>(numel()) * size_of(dtype_));
    return copy;
  }
  for (std::int64_t r = 0; r < rows(); ++r)
    memory.copy(
        static_cast<std::byte*>(copy.raw()) + static_cast<std::size_t>(r) * row_bytes,
        static_cast<std::byte*>(raw()) + static_cast<std::size_t>(r * channel_pitch_) * size_of(dtype_),
        row_bytes);
  return copy;
}

Tensor Tensor::to_device(const Device& target, MemoryCategory category) const {
  if (target == device()) return *this;
  const Tensor packed = is_packed() ? *this : clone(category);
  Tensor copy(shape_, dtype_, target, category);
  const std::size_t bytes = static_cast<std::size_t>(numel()) * size_of(dtype_);
  if (target.kind == DeviceKind::kCuda)
    copy.storage()->allocator().memory().copy_from_host(copy.raw(), packed.raw(), bytes);
  else
    storage_->allocator().memory().copy_to_host(copy.raw(), packed.raw(), bytes);
  return copy;
}

void Tensor::set_zero() const {
  DeviceMemory& memory = storage_->allocator().memory();
  const std::size_t row_bytes = static_cast<std::size_t>(channels()) * size_of(dtype_);
  if (is_packed()) return memory.zero(raw(), static_cast<std::size_t>(numel()) * size_of(dtype_));
  for (std::int64_t r = 0; r < rows(); ++r)
    memory.zero(
        static_cast<std::byte*>(raw()) + static_cast<std::size_t>(r * channel_pitch_) * size_of(dtype_),
        row_bytes);
}

std::string to_string(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{} {}", name(tensor.dtype()), to_string(tensor.shape()))
                          : "undefined tensor";
}

}  // namespace tandem
