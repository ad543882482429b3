// TD_HD marks scalar maths that g++ and nvcc both compile. Nothing else lives here.
#pragma once

#if defined(__CUDACC__)
#define TD_HD __host__ __device__ inline
#else
#define TD_HD inline
#endif
