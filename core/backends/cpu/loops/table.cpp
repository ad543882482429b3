// This level's function table.
#include "core/backends/cpu/loops/entries.h"

namespace tandem::TD_ISA_NAMESPACE {

extern const LoopTable kLoops;
const LoopTable kLoops = {
    .map = &map,
    .reduce_rows = &reduce_rows,
    .reorder = &reorder,
    .move = &move,
    .resize = &resize,
    .dropout = &dropout,
    .depth_to_space = &depth_to_space,
    .norm_statistics = &norm_statistics,
    .norm_apply = &norm_apply,
    .norm_backward_sums = &norm_backward_sums,
    .norm_backward_apply = &norm_backward_apply,
    .layer_norm_forward = &layer_norm_forward,
    .layer_norm_backward = &layer_norm_backward,
    .pool_forward = &pool_forward,
    .pool_backward = &pool_backward,
    .softmax_forward = &softmax_forward,
    .softmax_backward = &softmax_backward,
    .loss_sums = &loss_sums,
    .loss_backward = &loss_backward,
    .sigmoid_loss_sums = &sigmoid_loss_sums,
    .sigmoid_loss_backward = &sigmoid_loss_backward,
    .gradient_check = &gradient_check,
    .optimizer_step = &optimizer_step,
    .widen = &convert_to_float,
    .narrow = &convert_from_float,
};

}  // namespace tandem::TD_ISA_NAMESPACE
