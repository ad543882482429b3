// Which instruction sets the CPU backend may use: what CPU and operating system allow, lowered by TANDEM_ISA.
// Which kernel runs on which level is the subject of conv_engine.h and of the loops' dispatch.
#pragma once

#include <optional>
#include <string_view>

namespace tandem {

// x86-64-v2 (SSE4.2), v3 (AVX2, FMA, F16C), v4 (AVX-512 F BW CD DQ VL), and v4 with AMX tiles for BF16.
enum class CpuIsa { kV2, kV3, kV4, kAmx };

std::string_view name(CpuIsa isa);  // "sse4", "avx2", "avx512", "amx"
// The level called `text`, as TANDEM_ISA spells it; nothing for another word.
std::optional<CpuIsa> isa_of(std::string_view text);

// A level and the BF16 dot-product instructions, which a v4 machine has or lacks.
struct CpuTarget {
  CpuIsa isa = CpuIsa::kV2;
  bool avx512_bf16 = false;  // only with isa >= kV4
  friend bool operator==(const CpuTarget&, const CpuTarget&) = default;
};

// What this machine can run. On AMX machines asks the kernel for the tile data permission (arch_prctl);
// without it the answer is kV4.
CpuTarget detect_cpu();
// `available` lowered to `requested` ("" = not lowered): a level above the available one is capped, which
// *capped reports. Throws Error{kUsage} for a word that names no level.
CpuTarget lower_target(const CpuTarget& available, std::string_view requested, bool* capped);

// detect_cpu() lowered by the environment variable TANDEM_ISA = sse4 | avx2 | avx512 | amx, read once; a
// level that the machine lacks is capped with one warning.
CpuTarget cpu_target();
inline CpuIsa cpu_isa() { return cpu_target().isa; }

}  // namespace tandem
