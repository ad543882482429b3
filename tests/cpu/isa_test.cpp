// The override of the instruction-set level.
#include "core/backends/cpu/isa.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

TEST(Isa, NamesAreThoseOfTheVariable) {
  for (const CpuIsa isa : {CpuIsa::kV2, CpuIsa::kV3, CpuIsa::kV4, CpuIsa::kAmx})
    EXPECT_EQ(isa_of(name(isa)), isa);
  EXPECT_EQ(isa_of("avx"), std::nullopt);
}

TEST(Isa, IsLoweredAndCapped) {
  bool capped = true;
  const CpuTarget amx{CpuIsa::kAmx, true}, avx2{CpuIsa::kV3, false};
  EXPECT_EQ(lower_target(amx, "", &capped), amx);
  EXPECT_FALSE(capped);
  EXPECT_EQ(lower_target(amx, "avx512", &capped), (CpuTarget{CpuIsa::kV4, true}));
  EXPECT_EQ(lower_target(amx, "avx2", &capped), avx2);
  EXPECT_EQ(lower_target(amx, "sse4", &capped), (CpuTarget{CpuIsa::kV2, false}));
  EXPECT_FALSE(capped);
  EXPECT_EQ(lower_target(avx2, "amx", &capped), avx2);
  EXPECT_TRUE(capped);
}

TEST(Isa, AnUnknownLevelIsAUsageError) {
  bool capped = false;
  try {
    lower_target({CpuIsa::kV3, false}, "avx1024", &capped);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.text(), "[isa] TANDEM_ISA: got 'avx1024', expected sse4, avx2, avx512 or amx");
  }
}

TEST(Isa, DetectionAgreesWithTheCompilersView) {
  const CpuTarget found = detect_cpu();
  EXPECT_EQ(found.isa >= CpuIsa::kV3,
            __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(found.isa >= CpuIsa::kV4,
            __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_TRUE(!found.avx512_bf16 || found.isa >= CpuIsa::kV4);
}

}  // namespace
}  // namespace tandem
