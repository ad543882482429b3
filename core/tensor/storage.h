// One owned allocation on one device. Shared by the tensors that look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/tensor/allocator.h"

namespace tandem {

class Storage {
 public:
  // Uninitialised memory of `device`; throws Error{kResource} when there is none left.
  Storage(const Device& device, std::size_t bytes, MemoryCategory category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const Device& device() const { return device_; }
  MemoryCategory category() const { return category_; }
  Allocator& allocator() const { return *allocator_; }

  // Unique for the life of the process: with version(), the key of a backend's cache of packed weights.
  std::uint64_t id() const { return id_; }
  std::uint64_t version() const { return version_; }
  // To be called after every change of kWeights storage (initialisation, optimizer step, loading a
  // checkpoint).
  void mark_changed() { ++version_; }

 private:
  std::shared_ptr<Allocator> allocator_;
  Device device_;
  MemoryCategory category_;
  std::size_t bytes_;
  void* data_;
  std::uint64_t id_;
  std::uint64_t version_ = 0;
};

}  // namespace tandem
