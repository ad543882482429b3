// Matmul: own kernels see a one-dimensional convolution with one tap, oneDNN a matmul on staged blocks.
#include "core/backends/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/backends/cpu/conv_gather.h"
#include "core/backends/cpu/conv_staging.h"

namespace tandem {
namespace {

MatmulShape shape_of(const GemmArgs& args, const Tensor& a, const Tensor& b) {
  MatmulShape shape{0, 0, 0, args.transpose_a, args.transpose_b, args.accumulate};
  shape.m = args.transpose_a ? a.channels() : a.rows();
  shape.k = args.transpose_a ? a.rows() : a.channels();
  shape.n = args.transpose_b ? b.rows() : b.channels();
  return shape;
}

// x [voxels, in] to y [voxels, out] with one tap.
ConvGeometry one_tap(std::int64_t voxels, std::int64_t in, std::int64_t out) {
  ConvGeometry g;
  g.spatial_rank = 1;
  g.in_channels = in;
  g.out_channels = out;
  g.in[2] = g.out[2] = voxels;
  return g;
}

// Zeroes the rows of an F32 or 16-bit matrix.
void clear(const Tensor& c) {
  for (std::int64_t r = 0; r < c.rows(); ++r)
    std::memset(rows_from(mutable_rows_of(c), r).data, 0,
                static_cast<std::size_t>(c.channels()) * size_of(c.dtype()));
}

StageJob operand_job(Engine engine, const Tensor& t, DType element, SplitSide side, bool stacked) {
  StageJob job{engine == Engine::kSplit ? StageKind::kSplit : StageKind::kWiden, rows_of(t), t.rows(),
               t.channels()};
  job.element = element;
  job.side = side;
  job.stacked = stacked;
  return job;
}

// Rows [begin, end) of the job's matrix, staged.
Scratch staged(const KernelTable& kernels, StageJob job, const IndexRange& rows) {
  job.src = rows_from(job.src, rows.begin);
  job.rows = rows.size();
  Scratch buffer(static_cast<std::size_t>(staged_bytes(job)));
  job.dst = buffer.data();
  stage_rows(kernels, job);
  return buffer;
}

std::int64_t row_bytes(StageJob job) {
  job.rows = 1;
  return std::max<std::int64_t>(1, staged_bytes(job));
}

}  // namespace

void CpuGemm::gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) const {
  gemm(choose_gemm_engine(shape_of(args, a, b), a.dtype(), context_->target), args, a, b, c);
}

void CpuGemm::gemm(Engine engine, const GemmArgs& args, const Tensor& a, const Tensor& b,
                   const Tensor& c) const {
  const MatmulShape shape = shape_of(args, a, b);
  if (c.numel() == 0) return;
  if (shape.k == 0) {
    if (!args.accumulate) clear(c);
    return;
  }
  if (engine == Engine::kDirect)
    return shape.transpose_a ? direct_gradient(shape, a, b, c) : direct_rows(shape, a, b, c);
  if (engine != Engine::kOneDnn)
    return shape.transpose_a ? staged_reduction(engine, shape, a, b, c) : staged_rows(engine, shape, a, b, c);
  context_->onednn.gemm({shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b, shape.accumulate,
                         a.channel_pitch(), b.channel_pitch(), c.channel_pitch(), a.dtype(), c.dtype()},
                        a.raw(), b.raw(), c.raw());
}

void CpuGemm::direct_rows(const MatmulShape& shape, const Tensor& a, const Tensor& b, const Tensor& c) const {
  const ConvGeometry g = one_tap(shape.m, shape.k, shape.n);
  const auto bytes = static_cast<std::size_t>(context_->direct.packed_floats(g, false)) * sizeof(float);
  ConvGeometry key_shape = g;
  key_shape.in[2] = key_shape.out[2] = 1;
  const CacheKey key =
      cache_key(key_shape, {-1, shape.transpose_b, static_cast<int>(b.dtype()), b.channel_pitch()});
  const auto packed = context_->packed.get(b, key, bytes, [&](void* to) {
    const Scratch wide =
        staged(context_->kernels, operand_job(Engine::kWidened, b, DType::kF32, SplitSide::kRight, false),
               {0, b.rows()});
    const WeightStrides strides =
        shape.transpose_b ? WeightStrides{shape.k, 0, 1} : WeightStrides{1, 0, shape.n};
    context_->direct.pack_weights(g, false, wide.as<float>(), strides, static_cast<float*>(to));
  });
  context_->direct.forward(g, rows_of(a), packed->as<float>(), nullptr, mutable_rows_of(c));
}

void CpuGemm::direct_gradient(const MatmulShape& shape, const Tensor& a, const Tensor& b,
                              const Tensor& c) const {
  const ConvGeometry g = one_tap(shape.k, shape.m, shape.n);
  if (c.dtype() == DType::kF32) {
    if (!shape.accumulate) clear(c);
    return context_->direct.backward_weights(g, rows_of(a), rows_of(b), c.data<float>(),
                                             {1, 0, c.channel_pitch()});
  }
  const Scratch sum(static_cast<std::size_t>(shape.m * shape.n) * sizeof(float));
  std::memset(sum.data(), 0, sum.bytes());
  context_->direct.backward_weights(g, rows_of(a), rows_of(b), sum.as<float>(), {1, 0, shape.n});
  unstage_rows(context_->kernels, sum.data(), DType::kF32, shape.m, shape.n, mutable_rows_of(c));
}

void CpuGemm::staged_rows(Engine engine, const MatmulShape& shape, const Tensor& a, const Tensor& b,
                          const Tensor& c) const {
  const KernelTable& kernels = context_->kernels;
  const std::int64_t k = shape.k * (engine == Engine::kSplit ? kSplitParts : 1);
  const DType element = engine == Engine::kSplit ? context_->split_element : DType::kF32;
  const StageJob a_job = operand_job(engine, a, element, SplitSide::kLeft, false);
  const Scratch b_operand =
      staged(kernels, operand_job(engine, b, element, SplitSide::kRight, !shape.transpose_b), {0, b.rows()});
  const bool narrow = c.dtype() != DType::kF32;
  const std::int64_t per_row = row_bytes(a_job) + (narrow ? shape.n * 4 : 0);
  const std::int64_t block = std::max<std::int64_t>(1, slab_bytes_ / per_row);
  OneDnnGemm gemm{0,
                  shape.n,
                  k,
                  false,
                  shape.transpose_b,
                  shape.accumulate,
                  k,
                  shape.transpose_b ? k : shape.n,
                  narrow ? shape.n : c.channel_pitch(),
                  element,
                  DType::kF32};
  for (std::int64_t row = 0; row < shape.m; row += block) {
    const IndexRange rows{row, std::min(shape.m, row + block)};
    gemm.m = rows.size();
    const Scratch a_operand = staged(kernels, a_job, rows);
    const MutableVoxelRows target = rows_from(mutable_rows_of(c), row);
    const Scratch result(narrow ? static_cast<std::size_t>(gemm.m * shape.n) * sizeof(float) : 0);
    context_->onednn.gemm(gemm, a_operand.data(), b_operand.data(), narrow ? result.data() : target.data);
    if (narrow) unstage_rows(kernels, result.data(), DType::kF32, gemm.m, shape.n, target);
  }
}

void CpuGemm::staged_reduction(Engine engine, const MatmulShape& shape, const Tensor& a, const Tensor& b,
                               const Tensor& c) const {
  const KernelTable& kernels = context_->kernels;
  const int parts = engine == Engine::kSplit ? kSplitParts : 1;
  const DType element = engine == Engine::kSplit ? context_->split_element : DType::kF32;
  const StageJob a_job = operand_job(engine, a, element, SplitSide::kLeft, true);
  const StageJob b_job = operand_job(engine, b, element, SplitSide::kRight, !shape.transpose_b);
  // b [N,K] cannot be cut along K by rows.
  const std::int64_t per_k = row_bytes(a_job) + (shape.transpose_b ? 0 : row_bytes(b_job));
  const std::int64_t block = shape.transpose_b ? shape.k : std::max<std::int64_t>(1, slab_bytes_ / per_k);
  const bool narrow = c.dtype() != DType::kF32;
  const Scratch result(narrow ? static_cast<std::size_t>(shape.m * shape.n) * sizeof(float) : 0);
  OneDnnGemm gemm{shape.m,
                  shape.n,
                  0,
                  true,
                  shape.transpose_b,
                  shape.accumulate,
                  shape.m,
                  0,
                  narrow ? shape.n : c.channel_pitch(),
                  element,
                  DType::kF32};
  for (std::int64_t first = 0; first < shape.k; first += block, gemm.accumulate = true) {
    const IndexRange range{first, std::min(shape.k, first + block)};
    gemm.k = parts * range.size();
    gemm.ldb = shape.transpose_b ? gemm.k : shape.n;
    const Scratch a_operand = staged(kernels, a_job, range);
    const Scratch b_operand = staged(kernels, b_job, shape.transpose_b ? IndexRange{0, b.rows()} : range);
    context_->onednn.gemm(gemm, a_operand.data(), b_operand.data(), narrow ? result.data() : c.raw());
  }
  if (narrow) unstage_rows(kernels, result.data(), DType::kF32, shape.m, shape.n, mutable_rows_of(c));
}

}  // namespace tandem
