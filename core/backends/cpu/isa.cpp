// Detection of instruction sets and the TANDEM_ISA override.
#include "core/backends/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr int kArchReqXcompPerm = 0x1023;
constexpr int kXfeatureTileData = 18;

// Linux keeps the 8 KiB of tile state off until a process asks for it; AMX instructions fault before.
bool may_use_amx_tiles() { return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0; }

// XCR0: which register state the operating system saves. Only callable when CPUID reports OSXSAVE.
std::uint64_t saved_state() {
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

struct AmxAndBf16 {
  bool amx_bf16 = false, avx512_bf16 = false;
};

// The features that __builtin_cpu_supports of g++ 12 does not name, from CPUID leaf 7.
AmxAndBf16 cpuid_leaf7() {
  AmxAndBf16 found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1u << 27)) == 0) return found;  // OSXSAVE
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  constexpr std::uint64_t kTileState = (1u << 17) | (1u << 18);
  const bool tiles_saved = (saved_state() & kTileState) == kTileState;
  const bool amx_tile = (d & (1u << 24)) != 0, amx_bf16 = (d & (1u << 22)) != 0;
  found.amx_bf16 = amx_tile && amx_bf16 && tiles_saved;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) found.avx512_bf16 = (a & (1u << 5)) != 0;
  return found;
}

bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt");
}

bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::string_view name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kV2:
      return "sse4";
    case CpuIsa::kV3:
      return "avx2";
    case CpuIsa::kV4:
      return "avx512";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "?";
}

std::optional<CpuIsa> isa_of(std::string_view text) {
  for (const CpuIsa isa : {CpuIsa::kV2, CpuIsa::kV3, CpuIsa::kV4, CpuIsa::kAmx})
    if (name(isa) == text) return isa;
  return std::nullopt;
}

CpuTarget detect_cpu() {
  __builtin_cpu_init();
  if (!has_v3()) return {CpuIsa::kV2, false};
  if (!has_v4()) return {CpuIsa::kV3, false};
  const AmxAndBf16 found = cpuid_leaf7();
  if (found.amx_bf16 && found.avx512_bf16 && may_use_amx_tiles()) return {CpuIsa::kAmx, true};
  return {CpuIsa::kV4, found.avx512_bf16};
}

CpuTarget lower_target(const CpuTarget& available, std::string_view requested, bool* capped) {
  *capped = false;
  if (requested.empty()) return available;
  const std::optional<CpuIsa> isa = isa_of(requested);
  if (!isa)
    throw Error(ErrorKind::kUsage,
                fmt::format("[isa] TANDEM_ISA: got '{}', expected sse4, avx2, avx512 or amx", requested),
                "Correct the environment variable or unset it.");
  *capped = *isa > available.isa;
  if (*isa >= available.isa) return available;
  return {*isa, *isa >= CpuIsa::kV4 && available.avx512_bf16};
}

CpuTarget cpu_target() {
  static const CpuTarget target = [] {
    const char* requested = std::getenv("TANDEM_ISA");
    bool capped = false;
    const CpuTarget available = detect_cpu();
    const CpuTarget lowered = lower_target(available, requested == nullptr ? "" : requested, &capped);
    if (capped)
      log_warning("TANDEM_ISA={}: this machine has no {}, using {}.", requested, requested,
                  name(available.isa));
    return lowered;
  }();
  return target;
}

}  // namespace tandem
