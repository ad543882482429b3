// Workspace of one call: bytes of the CPU allocator (category kWorkspace), given back on destruction. What is
// put in it is the caller's business.
#pragma once

#include <cstddef>
#include <memory>

#include "core/tensor/allocator.h"

namespace tandem {

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t bytes)
      : allocator_(allocator_of(kCpuDevice)),
        bytes_(bytes),
        data_(allocator_->allocate(bytes, MemoryCategory::kWorkspace)) {}
  ~Scratch() { reset(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void reset() {
    if (data_ != nullptr) allocator_->free(data_, bytes_, MemoryCategory::kWorkspace);
    data_ = nullptr;
  }

  std::shared_ptr<Allocator> allocator_;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

}  // namespace tandem
