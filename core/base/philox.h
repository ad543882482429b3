// Philox4x32-10 (Salmon et al. 2011) as scalar maths for every device; streams of draws are rng.h's.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace tandem {

// Replaces the counter `c` by its block under the key (k0, k1).
TD_HD void philox4x32_words(std::uint32_t k0, std::uint32_t k1, std::uint32_t c[4]) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

}  // namespace tandem
