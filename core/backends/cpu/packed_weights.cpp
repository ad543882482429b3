// Look-up, refill and eviction of packed weights.
#include "core/backends/cpu/packed_weights.h"

#include <algorithm>

namespace tandem {

CacheKey cache_key(const ConvGeometry& g, std::initializer_list<std::int64_t> extra) {
  CacheKey key{g.spatial_rank, g.batch, g.in_channels, g.out_channels, g.groups};
  for (const auto& triple : {g.in, g.out, g.kernel, g.stride, g.dilation, g.padding})
    key.insert(key.end(), triple.begin(), triple.end());
  key.insert(key.end(), extra);
  return key;
}

std::shared_ptr<const Scratch> PackedWeights::get(const Tensor& w, const CacheKey& key, std::size_t bytes,
                                                  const std::function<void(void*)>& fill) {
  const Storage& storage = *w.storage();
  if (storage.category() != MemoryCategory::kWeights) {
    auto packed = std::make_shared<Scratch>(bytes);
    fill(packed->data());
    return packed;
  }
  CacheKey full = key;
  full.insert(full.end(), {static_cast<std::int64_t>(storage.id()), w.offset()});
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(full)) trim();
  Entry& entry = entries_[full];
  entry.last_use = ++uses_;
  if (!entry.packed || entry.version != storage.version() || entry.packed->bytes() != bytes) {
    // Filled before it is entered: a throwing fill leaves no half-written copy. Another caller may still read
    // the old copy, so it is replaced, not overwritten.
    entry.packed.reset();
    auto packed = std::make_shared<Scratch>(bytes);
    fill(packed->data());
    entry.packed = std::move(packed);
    entry.version = storage.version();
    entry.source = w.storage();
  }
  return entry.packed;
}

std::size_t PackedWeights::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void PackedWeights::trim() {
  std::erase_if(entries_, [](const auto& item) { return item.second.source.expired(); });
  while (entries_.size() >= kMaxEntries)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    }));
}

}  // namespace tandem
