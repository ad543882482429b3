// Which engine computes a convolution or a matmul: a pure function of pass, shape, dtype and target, so that
// a run with the same build, ISA and threads takes the same path. The engines themselves are elsewhere.
#pragma once

#include <string_view>

#include "core/backends/cpu/isa.h"
#include "core/backends/cpu/onednn.h"

namespace tandem {

enum class Engine {
  kDirect,   // own kernels (conv_direct.h), FP32 inside, any dtype
  kOneDnn,   // oneDNN in the tensors' dtype: F32, or BF16 where the machine has it
  kWidened,  // oneDNN in FP32, 16-bit operands widened slab by slab
  kSplit,    // oneDNN's matmul in BF16 on FP16 values split in two (split.h); no convolution
  kTiles,    // own kernels on AMX tiles, FP16 values split in cache (conv_tiles.h)
};
std::string_view name(Engine engine);

// dtype: of x, dy and w.
Engine choose_conv_engine(ConvPass pass, const ConvGeometry& g, DType dtype, const CpuTarget& target);

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};
// dtype: of a and b.
Engine choose_gemm_engine(const MatmulShape& shape, DType dtype, const CpuTarget& target);

}  // namespace tandem
