// Rows of convolution, transposed convolution and matrix products.
#include "core/ops/conv.h"
#include "core/ops/linear.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

struct ConvCase {
  std::string variant;
  Shape x, w, y;
  bool bias = true;
  WindowOptions options = {};
  std::array<std::int64_t, 3> output_padding{0, 0, 0};
  bool large = false;
};

std::vector<OpInput> conv_inputs(const ConvCase& c, std::int64_t outputs) {
  std::vector<OpInput> inputs{{.shape = c.x}, {.shape = c.w, .wide_gradient = true}};
  if (c.bias) inputs.push_back({.shape = Shape{outputs}, .kept = true});
  return inputs;
}

OpRow conv_row(const ConvCase& c) {
  OpRow row{.op = "conv", .variant = c.variant, .inputs = conv_inputs(c, c.w[0])};
  row.build = [c](std::span<const Var> in) {
    return conv(in[0], in[1], c.bias ? in[2] : Var(),
                {.stride = c.options.stride,
                 .padding = c.options.padding,
                 .dilation = c.options.dilation,
                 .groups = c.options.groups});
  };
  row.forward_sum = c.w[1] * c.w.spatial_numel();
  row.backward_sum = std::max(c.w[0] * c.w.spatial_numel(), c.y[0] * c.y.spatial_numel());
  row.formula = [c](const InputValues& in) { return conv_formula(c.x, c.w, in, c.y, c.options); };
  row.multiplies_zeros = true;
  row.is_dot = true;
  row.threads_may_differ = true;
  row.large = c.large;
  return row;
}

OpRow conv_transpose_row(const ConvCase& c) {
  OpRow row{
      .op = "conv_transpose", .variant = c.variant, .inputs = conv_inputs(c, c.w[1] * c.options.groups)};
  row.build = [c](std::span<const Var> in) {
    return conv_transpose(in[0], in[1], c.bias ? in[2] : Var(),
                          {.stride = c.options.stride,
                           .padding = c.options.padding,
                           .output_padding = c.output_padding,
                           .dilation = c.options.dilation,
                           .groups = c.options.groups});
  };
  const bool blocks = (c.options.stride == c.w.spatial() && c.options.groups == 1) || c.x[0] == 0;
  if (c.bias && !blocks)
    row.intermediate = {.output = 1,
                        .what = "16 bits before the bias is added: the backend's data gradient has none"};
  row.forward_sum = c.w[0] * c.w.spatial_numel();
  row.backward_sum = std::max(c.w[1] * c.w.spatial_numel(), c.y[0] * c.y.spatial_numel());
  row.formula = [c](const InputValues& in) { return conv_transpose_formula(c.x, c.w, in, c.y, c.options); };
  row.multiplies_zeros = true;
  row.is_dot = true;
  row.threads_may_differ = true;
  row.large = c.large;
  return row;
}

OpRow matmul_row(const std::string& variant, std::int64_t m, std::int64_t k, std::int64_t n) {
  OpRow row{.op = "matmul",
            .variant = variant,
            .inputs = {{.shape = {m, k}, .wide_gradient = true}, {.shape = {k, n}, .wide_gradient = true}},
            .is_dot = true};
  row.build = [](std::span<const Var> in) { return matmul(in[0], in[1]); };
  row.forward_sum = k;
  row.backward_sum = std::max(m, n);
  row.formula = [=](const InputValues& in) { return matmul_formula(in, m, k, n, false); };
  row.threads_may_differ = true;
  return row;
}

OpRow linear_row(const std::string& variant, std::int64_t batch, std::int64_t in_features,
                 std::int64_t out_features, bool with_bias) {
  OpRow row{.op = "linear",
            .variant = variant,
            .inputs = {{.shape = {batch, in_features}},
                       {.shape = {out_features, in_features}, .wide_gradient = true}},
            .is_dot = true};
  if (with_bias) row.inputs.push_back({.shape = {out_features}, .kept = true});
  row.build = [=](std::span<const Var> in) { return linear(in[0], in[1], with_bias ? in[2] : Var()); };
  row.forward_sum = in_features;
  row.backward_sum = std::max(batch, out_features);
  row.formula = [=](const InputValues& in) {
    return matmul_formula(in, batch, in_features, out_features, true);
  };
  row.threads_may_differ = true;
  return row;
}

// clang-format off
const std::vector<ConvCase> kConvs{
    {"1d", {2, 3, 17}, {4, 3, 3}, {2, 4, 17}, true, {.padding = {0, 0, 1}}},
    {"1dStrideDilation", {1, 5, 17}, {3, 5, 3}, {1, 3, 6}, true, {.stride = {1, 1, 2}, .dilation = {1, 1, 3}}},
    {"2d", {2, 3, 7, 5}, {4, 3, 3, 3}, {2, 4, 7, 5}, true, {.padding = {0, 1, 1}}},
    {"2dKernel5", {2, 1, 9, 9}, {3, 1, 5, 5}, {2, 3, 5, 5}},
    {"2dGroups", {1, 4, 5, 6}, {6, 2, 3, 3}, {1, 6, 5, 6}, true, {.padding = {0, 1, 1}, .groups = 2}},
    {"2dDepthwise", {1, 3, 5, 5}, {3, 1, 3, 3}, {1, 3, 5, 5}, false, {.padding = {0, 1, 1}, .groups = 3}},
    {"3d", {1, 3, 5, 4, 6}, {4, 3, 3, 3, 3}, {1, 4, 5, 4, 6}, true, {.padding = {1, 1, 1}}},
    {"3dNoBias", {2, 2, 3, 3, 3}, {2, 2, 3, 3, 3}, {2, 2, 3, 3, 3}, false, {.padding = {1, 1, 1}}},
    {"3dStride2", {1, 2, 5, 7, 6}, {3, 2, 3, 3, 3}, {1, 3, 3, 4, 3}, true, {.stride = {2, 2, 2}, .padding = {1, 1, 1}}},
    {"3dAnisotropic", {1, 2, 3, 5, 6}, {3, 2, 1, 3, 3}, {1, 3, 3, 3, 3}, true, {.stride = {1, 2, 2}, .padding = {0, 1, 1}}},
    {"3dDilated", {1, 2, 5, 5, 5}, {2, 2, 3, 3, 3}, {1, 2, 5, 5, 5}, true, {.padding = {2, 2, 2}, .dilation = {2, 2, 2}}},
    {"3dGroups", {1, 4, 3, 3, 3}, {2, 2, 3, 3, 3}, {1, 2, 3, 3, 3}, true, {.padding = {1, 1, 1}, .groups = 2}},
    {"3dPointwise", {2, 17, 2, 3, 2}, {3, 17, 1, 1, 1}, {2, 3, 2, 3, 2}},
    {"3dOneChannel", {1, 1, 4, 4, 4}, {17, 1, 3, 3, 3}, {1, 17, 4, 4, 4}, true, {.padding = {1, 1, 1}}},
    {"3dChannels17", {1, 17, 3, 3, 3}, {17, 17, 3, 3, 3}, {1, 17, 3, 3, 3}, true, {.padding = {1, 1, 1}}},
    {"3dChannels33", {1, 33, 2, 3, 5}, {5, 33, 3, 3, 3}, {1, 5, 2, 3, 5}, true, {.padding = {1, 1, 1}}},
    {"3dChannels32Width17", {1, 32, 2, 2, 17}, {32, 32, 3, 3, 3}, {1, 32, 2, 2, 17}, true, {.padding = {1, 1, 1}}},
    // Few elements, but channels that matrix tiles take.
    {"1dChannels4", {1, 4, 7}, {4, 4, 3}, {1, 4, 7}, true, {.padding = {0, 0, 1}}},
    {"2dChannels4", {2, 4, 4, 3}, {6, 4, 3, 3}, {2, 6, 4, 3}, false, {.padding = {0, 1, 1}}},
    {"3dOneVoxel", {1, 2, 1, 1, 1}, {3, 2, 3, 3, 3}, {1, 3, 1, 1, 1}, true, {.padding = {1, 1, 1}}},
    {"3dFarPadding", {1, 2, 2, 2, 2}, {2, 2, 2, 2, 2}, {1, 2, 5, 5, 5}, true, {.padding = {2, 2, 2}}},
    {"oneElement", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"3dEmptyBatch", {0, 3, 4, 4, 4}, {2, 3, 3, 3, 3}, {0, 2, 2, 2, 2}},
    // Several slabs, tiles and tails of the CPU's kernels.
    {.variant = "3dLarge32", .x = {1, 32, 10, 9, 33}, .w = {32, 32, 3, 3, 3}, .y = {1, 32, 10, 9, 33}, .options = {.padding = {1, 1, 1}}, .large = true},
    {.variant = "3dLarge64To48", .x = {2, 64, 5, 6, 17}, .w = {48, 64, 3, 3, 3}, .y = {2, 48, 5, 6, 17}, .options = {.padding = {1, 1, 1}}, .large = true},
    {.variant = "3dLargeStride2", .x = {1, 32, 12, 11, 18}, .w = {64, 32, 3, 3, 3}, .y = {1, 64, 6, 6, 9}, .options = {.stride = {2, 2, 2}, .padding = {1, 1, 1}}, .large = true},
    {.variant = "3dLargeFirst", .x = {1, 1, 16, 17, 40}, .w = {32, 1, 3, 3, 3}, .y = {1, 32, 16, 17, 40}, .options = {.padding = {1, 1, 1}}, .large = true},
    {.variant = "3dLargeLast", .x = {1, 32, 16, 17, 40}, .w = {6, 32, 1, 1, 1}, .y = {1, 6, 16, 17, 40}, .large = true},
    {.variant = "2dLarge", .x = {2, 32, 30, 33}, .w = {40, 32, 3, 3}, .y = {2, 40, 30, 33}, .options = {.padding = {0, 1, 1}}, .large = true},
};
const std::vector<ConvCase> kTransposes{
    {"1dBlocks", {2, 3, 5}, {3, 2, 2}, {2, 2, 10}, true, {.stride = {1, 1, 2}}},
    {"2dBlocks", {1, 5, 3, 4}, {5, 3, 2, 3}, {1, 3, 6, 12}, true, {.stride = {1, 2, 3}}},
    {"3dBlocks", {1, 3, 2, 3, 4}, {3, 2, 2, 2, 2}, {1, 2, 4, 6, 8}, true, {.stride = {2, 2, 2}}},
    {"3dBlocksNoBias", {2, 17, 1, 2, 3}, {17, 3, 1, 2, 2}, {2, 3, 1, 4, 6}, false, {.stride = {1, 2, 2}}},
    {"3dBlocksChannels33", {1, 33, 2, 2, 2}, {33, 17, 2, 2, 2}, {1, 17, 4, 4, 4}, true, {.stride = {2, 2, 2}}},
    {"oneElement", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"3dBlocksEmptyBatch", {0, 3, 2, 2, 2}, {3, 2, 2, 2, 2}, {0, 2, 4, 4, 4}, true, {.stride = {2, 2, 2}}},
    {"1dOverlap", {2, 3, 5}, {3, 2, 3}, {2, 2, 9}, true, {.stride = {1, 1, 2}, .padding = {0, 0, 1}}},
    {"2dOutputPadding", {1, 3, 3, 4}, {3, 2, 3, 3}, {1, 2, 6, 8}, true, {.stride = {1, 2, 2}, .padding = {0, 1, 1}}, {0, 1, 1}},
    {"3dOverlap", {1, 2, 3, 2, 3}, {2, 3, 3, 3, 3}, {1, 3, 5, 3, 5}, true, {.stride = {2, 2, 2}, .padding = {1, 1, 1}}},
    {"3dDilated", {1, 2, 3, 3, 2}, {2, 2, 2, 2, 2}, {1, 2, 5, 5, 4}, false, {.dilation = {2, 2, 2}}},
    {"3dGroups", {1, 4, 2, 2, 2}, {4, 1, 2, 2, 2}, {1, 2, 4, 4, 4}, true, {.stride = {2, 2, 2}, .groups = 2}},
    {"3dOverlapEmptyBatch", {0, 2, 3, 3, 3}, {2, 3, 3, 3, 3}, {0, 3, 5, 5, 5}},
    {.variant = "3dLargeBlocks", .x = {1, 64, 6, 7, 9}, .w = {64, 32, 2, 2, 2}, .y = {1, 32, 12, 14, 18}, .options = {.stride = {2, 2, 2}}, .large = true},
};
// clang-format on

}  // namespace

std::vector<OpRow> conv_rows() {
  std::vector<OpRow> rows;
  for (const ConvCase& c : kConvs) rows.push_back(conv_row(c));
  for (const ConvCase& c : kTransposes) rows.push_back(conv_transpose_row(c));
  rows.push_back(matmul_row("small", 2, 3, 4));
  rows.push_back(matmul_row("odd", 17, 3, 1));
  rows.push_back(matmul_row("column", 1, 17, 17));
  rows.push_back(matmul_row("tiles", 33, 65, 47));
  rows.push_back(matmul_row("oneElement", 1, 1, 1));
  rows.push_back(matmul_row("emptyRows", 0, 3, 2));
  rows.push_back(matmul_row("emptySum", 2, 0, 3));
  rows.push_back(linear_row("small", 3, 5, 4, true));
  rows.push_back(linear_row("noBias", 2, 17, 3, false));
  rows.push_back(linear_row("oneFeature", 17, 1, 1, true));
  rows.push_back(linear_row("tiles", 33, 65, 47, true));
  rows.push_back(linear_row("oneElement", 1, 1, 1, true));
  rows.push_back(linear_row("emptyBatch", 0, 5, 4, true));
  rows.push_back(linear_row("large", 65, 800, 500, true));
  rows.back().large = true;
  return rows;
}

}  // namespace tandem::testing
