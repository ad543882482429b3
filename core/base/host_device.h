// TD_HD marks scalar maths that g++ and nvcc both compile. Nothing else lives here. Always inlined: an
// out-of-line copy made by a file compiled for a wide instruction set could be chosen by the linker for every
// other file.
#pragma once

#if defined(__CUDACC__)
#define TD_HD __host__ __device__ __forceinline__
#else
#define TD_HD __attribute__((always_inline)) inline
#endif
