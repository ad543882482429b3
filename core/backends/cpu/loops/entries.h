// The functions that table.cpp puts into this level's LoopTable; defined one subject per file beside it.
#pragma once

#include "core/backends/cpu/loops/loops.h"

namespace tandem::TD_ISA_NAMESPACE {

void map(const MapLoop& loop);
// One functor over n floats; out may be an operand.
void map_floats(MapKernel kernel, const float* const in[], float* out, std::int64_t n,
                const kernels::MapParams& params);
void reduce_rows(const ReduceLoop& loop);
void reorder(const ReorderLoop& loop);
void move(const MoveLoop& loop);
void resize(const ResizeLoop& loop);
void dropout(const DropoutLoop& loop);
void depth_to_space(const DepthToSpaceLoop& loop);
void norm_statistics(const NormLoop& loop);
void norm_apply(const NormLoop& loop);
void norm_backward_sums(const NormLoop& loop);
void norm_backward_apply(const NormLoop& loop);
void layer_norm_forward(const LayerNormLoop& loop);
void layer_norm_backward(const LayerNormLoop& loop);
void pool_forward(const PoolLoop& loop);
void pool_backward(const PoolLoop& loop);
void softmax_forward(const SoftmaxLoop& loop);
void softmax_backward(const SoftmaxLoop& loop);
void loss_sums(const LossLoop& loop);
void loss_backward(const LossLoop& loop);
void sigmoid_loss_sums(const LossLoop& loop);
void sigmoid_loss_backward(const LossLoop& loop);
void gradient_check(const CheckLoop& loop);
bool optimizer_step(const OptimizerLoop& loop);
void convert_to_float(const void* from, DType dtype, float* to, std::int64_t n);
void convert_from_float(const float* from, void* to, DType dtype, std::int64_t n);

}  // namespace tandem::TD_ISA_NAMESPACE
