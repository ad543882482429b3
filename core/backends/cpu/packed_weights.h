// The cache of weights reordered for an engine. Only parameters (MemoryCategory::kWeights) are kept between
// calls; how a copy is laid out is the engine's business.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backends/cpu/scratch.h"
#include "core/backends/kernel_args.h"
#include "core/tensor/tensor.h"

namespace tandem {

// An ordered list of numbers that identifies a plan or a packed copy.
using CacheKey = std::vector<std::int64_t>;
// The fields of `g`, then `extra`.
CacheKey cache_key(const ConvGeometry& g, std::initializer_list<std::int64_t> extra);

class PackedWeights {
 public:
  static constexpr std::size_t kMaxEntries = 512;

  // The packed copy of `w` under `key` (which names layout and dtype). `fill` writes its `bytes` bytes from w
  // when there is none, or none of the present Storage::version(). A tensor of another category than kWeights
  // is packed anew at each call and not kept.
  std::shared_ptr<const Scratch> get(const Tensor& w, const CacheKey& key, std::size_t bytes,
                                     const std::function<void(void*)>& fill);
  std::size_t entries() const;

 private:
  struct Entry {
    std::weak_ptr<const Storage> source;
    std::uint64_t version = 0, last_use = 0;
    std::shared_ptr<Scratch> packed;
  };
  // Makes room: drops the copies of storages that are gone, then the one used longest ago while there are too
  // many.
  void trim();

  mutable std::mutex mutex_;
  std::map<CacheKey, Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem
