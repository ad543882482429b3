// The error rows: wrong calls of every op and the exact text that users see. Values are F32 where the device
// is the CPU's and where it is the reference's: the checks come before any computation.
#include <limits>

#include "core/ops/conv.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "core/ops/norm.h"
#include "core/ops/pool.h"
#include "core/ops/shape_ops.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr DType kI32 = DType::kI32;
const Shape kVolume{2, 4, 8, 8, 8}, kWeight{16, 4, 3, 3, 3};

const std::vector<OpErrorRow> kConvErrors = {
    {"conv", "channels",
     [](Tape& t) {
       return conv(var(t, {2, 4, 32, 32, 32}), var(t, {16, 3, 3, 3, 3}), {});
     },
     "[conv] input channels do not match the weight: input [2, 4, 32, 32, 32] has 4, weight [16, 3, 3, "
     "3, 3] "
     "expects 3"},
    {"conv", "groupChannels",
     [](Tape& t) {
       return conv(var(t, {2, 4, 8}), var(t, {6, 3, 3}), {}, {.groups = 2});
     },
     "[conv] input channels do not match the weight: input [2, 4, 8] has 4, weight [6, 3, 3] expects 6 "
     "in 2 "
     "groups"},
    {"conv", "groups",
     [](Tape& t) {
       return conv(var(t, {2, 4, 8}), var(t, {5, 2, 3}), {}, {.groups = 2});
     },
     "[conv] groups: got 2, expected a divisor of 5 for weight [5, 2, 3]"},
    {"conv", "noGroups",
     [](Tape& t) {
       return conv(var(t, {2, 4, 8}), var(t, {5, 4, 3}), {}, {.groups = 0});
     },
     "[conv] groups: got 0, expected a divisor of 5 for weight [5, 4, 3]"},
    {"conv", "axes",
     [](Tape& t) {
       return conv(var(t, {2, 4}), var(t, {5, 4}), {});
     },
     "[conv] axes of the input: got [2, 4], expected [N, C, W], [N, C, H, W] or [N, C, D, H, W]"},
    {"conv", "weightAxes",
     [](Tape& t) {
       return conv(var(t, kVolume), var(t, {16, 4, 3, 3}), {});
     },
     "[conv] axes differ: input [2, 4, 8, 8, 8] has 5, weight [16, 4, 3, 3] has 4"},
    {"conv", "dtypes", [](Tape& t) { return conv(var(t, kVolume, DType::kF16), var(t, kWeight), {}); },
     "[conv] dtypes differ: input F16 [2, 4, 8, 8, 8], weight F32 [16, 4, 3, 3, 3]"},
    {"conv", "integers", [](Tape& t) { return conv(var(t, kVolume, DType::kI32), var(t, kWeight), {}); },
     "[conv] dtype of the input: got I32 [2, 4, 8, 8, 8], expected a float dtype"},
    {"conv", "biasSize", [](Tape& t) { return conv(var(t, kVolume), var(t, kWeight), var(t, {4})); },
     "[conv] bias: got F32 [4], expected F32 [16] for weight [16, 4, 3, 3, 3]"},
    {"conv", "biasDtype",
     [](Tape& t) {
       return conv(var(t, kVolume, DType::kF16), var(t, kWeight, DType::kF16), var(t, {16}, DType::kF16));
     },
     "[conv] bias: got F16 [16], expected F32 [16] for weight [16, 4, 3, 3, 3]"},
    {"conv", "stride",
     [](Tape& t) {
       return conv(var(t, kVolume), var(t, kWeight), {}, {.stride = {1, 0, 1}});
     },
     "[conv] stride: got 0, expected 1 to 1048576"},
    {"conv", "padding",
     [](Tape& t) {
       return conv(var(t, kVolume), var(t, kWeight), {}, {.padding = {1, 1, -1}});
     },
     "[conv] padding: got -1, expected 0 to 1048576"},
    {"conv", "hugeDilation",
     [](Tape& t) {
       return conv(var(t, kVolume), var(t, kWeight), {},
                   {.dilation = {1, 1, std::numeric_limits<std::int64_t>::max()}});
     },
     "[conv] dilation: got 9223372036854775807, expected 1 to 1048576"},
    {"conv", "hugeExtent",
     [](Tape& t) {
       return conv(var(t, {0, 4, std::int64_t{1} << 40}), var(t, {1, 4, 3}), {});
     },
     "[conv] an extent of the input: got [0, 4, 1099511627776], expected at most 2147483647"},
    {"conv", "noVoxels",
     [](Tape& t) {
       return conv(var(t, {2, 4, 0}), var(t, {1, 4, 3}), {});
     },
     "[conv] voxels of the input: got [2, 4, 0], expected at least one"},
    {"conv", "emptyWeight",
     [](Tape& t) {
       return conv(var(t, {2, 4, 8}), var(t, {1, 4, 0}), {});
     },
     "[conv] weight: got [1, 4, 0], expected no empty axis"},
    {"conv", "kernelTooLarge",
     [](Tape& t) {
       return conv(var(t, {1, 1, 2, 8, 8}), var(t, {1, 1, 3, 3, 3}), {}, {.padding = {0, 1, 1}});
     },
     "[conv] the kernel does not fit the padded input: input [1, 1, 2, 8, 8], weight [1, 1, 3, 3, 3], "
     "padding [0, "
     "1, 1], dilation [1, 1, 1]"},
    {"conv", "view",
     [](Tape& t) {
       const Tensor wide({2, 4, 8}, DType::kF32, t.context().device);
       return conv(t.constant(wide.slice_channels(0, 3)), var(t, {1, 3, 3}), {});
     },
     "[conv] the input is a view of some channels: got F32 [2, 3, 8] with rows 4 apart, expected 3"},
    {"conv_transpose", "channels",
     [](Tape& t) {
       return conv_transpose(var(t, {1, 64, 4, 4}), var(t, {32, 16, 2, 2}), {});
     },
     "[conv_transpose] input channels do not match the weight: input [1, 64, 4, 4] has 64, weight [32, "
     "16, 2, 2] "
     "expects 32"},
    {"conv_transpose", "bias",
     [](Tape& t) {
       return conv_transpose(var(t, {1, 4, 4}), var(t, {4, 3, 2}), var(t, {4}), {.groups = 2});
     },
     "[conv_transpose] bias: got F32 [4], expected F32 [6] for weight [4, 3, 2]"},
    {"conv_transpose", "outputPadding",
     [](Tape& t) {
       return conv_transpose(var(t, {1, 4, 4, 4}), var(t, {4, 3, 2, 2}), {},
                             {.stride = {1, 2, 2}, .output_padding = {0, 1, 2}});
     },
     "[conv_transpose] output_padding: got [1, 2], expected less than the stride [2, 2]"},
    {"conv_transpose", "nothingLeft",
     [](Tape& t) {
       return conv_transpose(var(t, {1, 4, 1}), var(t, {4, 3, 2}), {}, {.padding = {0, 0, 1}});
     },
     "[conv_transpose] nothing is left of the output: input [1, 4, 1], weight [4, 3, 2], padding [1]"},
    {"conv_transpose", "dtypes",
     [](Tape& t) {
       return conv_transpose(var(t, {1, 4, 1}, DType::kBF16), var(t, {4, 3, 2}), {});
     },
     "[conv_transpose] dtypes differ: input BF16 [1, 4, 1], weight F32 [4, 3, 2]"}};

const std::vector<OpErrorRow> kMatrixErrors = {
    {"matmul", "inner",
     [](Tape& t) {
       return matmul(var(t, {2, 3}), var(t, {4, 5}));
     },
     "[matmul] inner sizes differ: a [2, 3] has 3 columns, b [4, 5] has 4 rows"},
    {"matmul", "axes",
     [](Tape& t) {
       return matmul(var(t, {2, 3}), var(t, {3, 4, 5}));
     },
     "[matmul] axes of the b: got [3, 4, 5], expected [K, N]"},
    {"matmul", "dtypes",
     [](Tape& t) {
       return matmul(var(t, {2, 3}), var(t, {3, 5}, DType::kF16));
     },
     "[matmul] dtypes differ: a F32 [2, 3], b F16 [3, 5]"},
    {"linear", "features",
     [](Tape& t) {
       return linear(var(t, {4, 10}), var(t, {3, 8}), {});
     },
     "[linear] input features do not match the weight: input [4, 10] has 10, weight [3, 8] expects 8"},
    {"linear", "axes",
     [](Tape& t) {
       return linear(var(t, {4, 10, 2}), var(t, {3, 20}), {});
     },
     "[linear] axes of the input: got [4, 10, 2], expected [N, I]"},
    {"linear", "bias",
     [](Tape& t) {
       return linear(var(t, {4, 8}), var(t, {3, 8}), var(t, {8}));
     },
     "[linear] bias: got F32 [8], expected F32 [3] for weight [3, 8]"},
    {"linear", "dtypes",
     [](Tape& t) {
       return linear(var(t, {4, 8}), var(t, {3, 8}, DType::kF16), {});
     },
     "[linear] dtypes differ: input F32 [4, 8], weight F16 [3, 8]"}};

const std::vector<OpErrorRow> kElementwiseErrors = {
    {"relu", "integers",
     [](Tape& t) {
       return relu(var(t, {2, 3}, DType::kI32));
     },
     "[relu] dtype of the input: got I32 [2, 3], expected a float dtype"},
    {"leaky_relu", "slope",
     [](Tape& t) {
       return leaky_relu(var(t, {2, 3}), -0.5);
     },
     "[leaky_relu] slope: got -0.5, expected 0 <= slope < 1e6"},
    {"leaky_relu", "nanSlope",
     [](Tape& t) {
       return leaky_relu(var(t, {2, 3}), std::numeric_limits<double>::quiet_NaN());
     },
     "[leaky_relu] slope: got nan, expected 0 <= slope < 1e6"},
    {"add", "shapes",
     [](Tape& t) {
       return add(var(t, {2, 3, 4}), var(t, {2, 3, 5}));
     },
     "[add] shapes differ: x [2, 3, 4], y [2, 3, 5]"},
    {"add", "dtypes",
     [](Tape& t) {
       return add(var(t, {2, 3}), var(t, {2, 3}, DType::kBF16));
     },
     "[add] dtypes differ: x F32 [2, 3], y BF16 [2, 3]"},
    {"mul", "shapes",
     [](Tape& t) {
       return mul(var(t, {2, 3}), var(t, {3, 2}));
     },
     "[mul] shapes differ: x [2, 3], y [3, 2]"},
    {"mul", "dtypes",
     [](Tape& t) {
       return mul(var(t, {2, 3}, DType::kF16), var(t, {2, 3}));
     },
     "[mul] dtypes differ: x F16 [2, 3], y F32 [2, 3]"},
    {"bias", "size",
     [](Tape& t) {
       return bias(var(t, {2, 3, 4}), var(t, {4}));
     },
     "[bias] bias: got F32 [4], expected F32 [3] for input [2, 3, 4]"},
    {"cast", "target",
     [](Tape& t) {
       return cast(var(t, {2, 3}), DType::kU8);
     },
     "[cast] target dtype: got U8, expected a float dtype"},
    {"cast", "integers", [](Tape& t) { return cast(var(t, {2}, DType::kI64), DType::kF32); },
     "[cast] dtype of the input: got I64 [2], expected a float dtype"},
    {"concat", "none", [](Tape&) { return concat({}); }, "[concat] inputs: got none, expected at least one"},
    {"concat", "spatial",
     [](Tape& t) {
       return concat(std::array{var(t, {2, 3, 4, 4}), var(t, {2, 5, 4, 5})});
     },
     "[concat] shapes differ beyond the channels: input 0 [2, 3, 4, 4], input 1 [2, 5, 4, 5]"},
    {"concat", "dtypes",
     [](Tape& t) {
       return concat(std::array{var(t, {2, 3, 4}), var(t, {2, 5, 4}, DType::kF16)});
     },
     "[concat] dtypes differ: input 0 F32 [2, 3, 4], input 1 F16 [2, 5, 4]"},
    {"concat", "vectors", [](Tape& t) { return concat(std::array{var(t, {2})}); },
     "[concat] axes of input 0: got [2], expected [N, C, spatial]"},
    {"reshape", "elements",
     [](Tape& t) {
       return reshape(var(t, {2, 3, 5}), std::array<std::int64_t, 2>{4, 6});
     },
     "[reshape] elements: got [4, 6] for input [2, 3, 5] of 30 elements"},
    {"reshape", "indivisible",
     [](Tape& t) {
       return reshape(var(t, {2, 3, 5}), std::array<std::int64_t, 2>{4, -1});
     },
     "[reshape] elements: got [4, -1] for input [2, 3, 5] of 30 elements"},
    {"reshape", "twoUnknown",
     [](Tape& t) {
       return reshape(var(t, {2, 3}), std::array<std::int64_t, 2>{-1, -1});
     },
     "[reshape] sizes: got [-1, -1], expected sizes >= 0 and at most one -1"},
    {"flatten", "vector", [](Tape& t) { return flatten(var(t, {7})); },
     "[flatten] axes of the input: got [7], expected [N, ...]"}};

const std::vector<OpErrorRow> kNormAndPoolErrors = {
    {"instance_norm", "axes",
     [](Tape& t) {
       return instance_norm(var(t, {2, 3}), var(t, {3}), var(t, {3}));
     },
     "[instance_norm] axes of the input: got [2, 3], expected [N, C, W], [N, C, H, W] or [N, C, D, H, W]"},
    {"instance_norm", "noVoxels",
     [](Tape& t) {
       return instance_norm(var(t, {2, 3, 0, 4}), var(t, {3}), var(t, {3}));
     },
     "[instance_norm] voxels of the input: got [2, 3, 0, 4], expected at least one"},
    {"instance_norm", "scale",
     [](Tape& t) {
       return instance_norm(var(t, {2, 3, 5}), var(t, {5}), var(t, {3}));
     },
     "[instance_norm] scale: got F32 [5], expected F32 [3] for input [2, 3, 5]"},
    {"instance_norm", "shift16",
     [](Tape& t) {
       return instance_norm(var(t, {2, 3, 5}, DType::kF16), var(t, {3}), var(t, {3}, DType::kF16));
     },
     "[instance_norm] shift: got F16 [3], expected F32 [3] for input [2, 3, 5]"},
    {"instance_norm", "eps",
     [](Tape& t) {
       return instance_norm(var(t, {2, 3, 5}), var(t, {3}), var(t, {3}), {.eps = 0});
     },
     "[instance_norm] eps: got 0, expected > 0"},
    {"max_pool", "padding",
     [](Tape& t) {
       return max_pool(var(t, {1, 3, 8, 8}), {.window = {2, 2, 2}, .padding = {0, 1, 2}});
     },
     "[max_pool] padding: got [1, 2], expected at most half of the window [2, 2]"},
    {"max_pool", "window",
     [](Tape& t) {
       return max_pool(var(t, {1, 3, 8, 8}), {.window = {2, 0, 2}});
     },
     "[max_pool] window: got 0, expected 1 to 1048576"},
    {"max_pool", "fit",
     [](Tape& t) {
       return max_pool(var(t, {1, 3, 1, 8, 8}), {});
     },
     "[max_pool] the window does not fit the padded input: input [1, 3, 1, 8, 8], window [2, 2, 2], "
     "padding [0, 0, "
     "0]"},
    {"avg_pool", "stride",
     [](Tape& t) {
       return avg_pool(var(t, {1, 3, 8}), {.stride = std::array<std::int64_t, 3>{1, 1, -2}});
     },
     "[avg_pool] stride: got -2, expected 1 to 1048576"},
    {"avg_pool", "axes",
     [](Tape& t) {
       return avg_pool(var(t, {8, 3}), {});
     },
     "[avg_pool] axes of the input: got [8, 3], expected [N, C, W], [N, C, H, W] or [N, C, D, H, W]"}};

const std::vector<OpErrorRow> kLossErrors = {
    {"softmax", "axes", [](Tape& t) { return softmax(var(t, {3})); },
     "[softmax] logits: got [3], expected [N, C] or [N, C, spatial] with C >= 1"},
    {"softmax", "noClasses",
     [](Tape& t) {
       return softmax(var(t, {3, 0, 4}));
     },
     "[softmax] logits: got [3, 0, 4], expected [N, C] or [N, C, spatial] with C >= 1"},
    {"log_softmax", "noClasses",
     [](Tape& t) {
       return log_softmax(var(t, {3, 0, 4}));
     },
     "[log_softmax] logits: got [3, 0, 4], expected [N, C] or [N, C, spatial] with C >= 1"},
    {"cross_entropy", "labelShape",
     [](Tape& t) {
       return cross_entropy(var(t, {2, 3, 4, 4}), var(t, {2, 4, 4}, kI32));
     },
     "[cross_entropy] labels: got I32 [2, 4, 4], expected I32 [2, 1, 4, 4] for logits [2, 3, 4, 4]"},
    {"cross_entropy", "labelDtype",
     [](Tape& t) {
       return cross_entropy(var(t, {2, 3}), var(t, {2}));
     },
     "[cross_entropy] labels: got F32 [2], expected I32 [2, 1] for logits [2, 3]"},
    {"cross_entropy", "empty",
     [](Tape& t) {
       return cross_entropy(var(t, {0, 3, 4}), var(t, {0, 4}, kI32));
     },
     "[cross_entropy] nothing to average: got logits [0, 3, 4], expected at least one voxel"},
    {"cross_entropy", "smoothing",
     [](Tape& t) {
       return cross_entropy(var(t, {2, 3}), var(t, {2}, kI32), {.label_smoothing = 1});
     },
     "[cross_entropy] label_smoothing: got 1, expected 0 <= label_smoothing < 1"},
    {"soft_dice", "oneClass",
     [](Tape& t) {
       return soft_dice(var(t, {2, 1, 4}), var(t, {2, 4}, kI32));
     },
     "[soft_dice] classes: got 1, expected at least 2 without the background"},
    {"soft_dice", "smooth",
     [](Tape& t) {
       return soft_dice(var(t, {2, 3, 4}), var(t, {2, 4}, kI32), {.smooth = -1});
     },
     "[soft_dice] smooth: got -1, expected >= 0"},
    {"soft_dice", "labels",
     [](Tape& t) {
       return soft_dice(var(t, {2, 3, 4}), var(t, {2, 5}, kI32));
     },
     "[soft_dice] labels: got I32 [2, 5], expected I32 [2, 1, 4] for logits [2, 3, 4]"},
    {"dice_ce", "labels",
     [](Tape& t) {
       return dice_ce(var(t, {2, 3, 4}), var(t, {2, 4}, DType::kU8));
     },
     "[dice_ce] labels: got U8 [2, 4], expected I32 [2, 1, 4] for logits [2, 3, 4]"},
    {"soft_dice", "empty",
     [](Tape& t) {
       return soft_dice(var(t, {2, 3, 0}), var(t, {2, 1, 0}, kI32));
     },
     "[soft_dice] nothing to average: got logits [2, 3, 0], expected at least one voxel"},
    {"dice_ce", "empty",
     [](Tape& t) {
       return dice_ce(var(t, {0, 3, 4}), var(t, {0, 1, 4}, kI32));
     },
     "[dice_ce] nothing to average: got logits [0, 3, 4], expected at least one voxel"},
    {"dice_ce", "integers",
     [](Tape& t) {
       return dice_ce(var(t, {2, 3, 4}, kI32), var(t, {2, 4}, kI32));
     },
     "[dice_ce] dtype of the logits: got I32 [2, 3, 4], expected a float dtype"}};

}  // namespace

const std::vector<OpErrorRow>& op_error_table() {
  static const std::vector<OpErrorRow> table = [] {
    std::vector<OpErrorRow> all;
    for (const auto& part : {kConvErrors, kMatrixErrors, kElementwiseErrors, kNormAndPoolErrors, kLossErrors,
                             activation_errors(), norm_errors(), resize_errors(), segmentation_loss_errors(),
                             regression_loss_errors(), empty_loss_errors()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

}  // namespace tandem::testing
