// Rows of normalisation, and error rows of what instance norm does not share.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/elementwise.h"
#include "core/ops/norm.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

// A pre-activation nearer to the kink than this may change sides when rounded.
constexpr double kMargin = 0.01;

using NormCall = std::function<Var(std::span<const Var> in, const NormOptions& options)>;

struct NormCase {
  std::string op, variant;
  Shape shape;
  NormCall call;
  NormKey key;
};

double activated(Activation activation, double slope, double z) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kLeakyRelu:
      return z > 0 ? z : slope * z;
    case Activation::kElu:
      return z > 0 ? z : slope * std::expm1(z);
    case Activation::kGelu:
      return 0.5 * z * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::kTanh:
      return std::tanh(z);
    case Activation::kSoftplus:
      return std::log1p(std::exp(z));
    case Activation::kNone:
      break;
  }
  return z;
}

bool has_kink(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kLeakyRelu ||
         activation == Activation::kElu;
}

OpRow norm_row(const NormCase& c, const NormOptions& options = {}) {
  const Shape shape = c.shape;
  OpRow row{.op = c.op,
            .variant = c.variant,
            .inputs = {{.shape = shape},
                       {.shape = {shape[1]}, .kept = true, .gap = 0.5},
                       {.shape = {shape[1]}, .kept = true}}};
  row.build = [call = c.call, options](std::span<const Var> in) { return call(in, options); };
  row.forward_sum = std::max<std::int64_t>(1, shape.numel());
  row.backward_sum = row.forward_sum;
  row.overflows_inside = true;
  row.formula = [=, key = c.key](const InputValues& in) {
    Values y = norm_formula(shape, in, key);
    for (double& z : y) z = activated(options.activation, options.slope, z);
    return y;
  };
  if (has_kink(options.activation))
    row.accept = [shape, key = c.key](const InputValues& in) {
      return std::ranges::all_of(norm_formula(shape, in, key),
                                 [](double z) { return std::abs(z) >= kMargin; });
    };
  return row;
}

NormCase instance_case(const std::string& variant, const Shape& shape) {
  return {"instance_norm", variant, shape,
          [](std::span<const Var> in, const NormOptions& o) { return instance_norm(in[0], in[1], in[2], o); },
          [shape](std::int64_t n, std::int64_t c, std::int64_t) { return n * shape[1] + c; }};
}

NormCase batch_case(const std::string& variant, const Shape& shape) {
  return {"batch_norm", variant, shape,
          [](std::span<const Var> in, const NormOptions& o) { return batch_norm(in[0], in[1], in[2], o); },
          [](std::int64_t, std::int64_t c, std::int64_t) { return c; }};
}

NormCase group_case(const std::string& variant, const Shape& shape, std::int64_t groups) {
  return {"group_norm", variant, shape,
          [groups](std::span<const Var> in, const NormOptions& o) {
            return group_norm(in[0], in[1], in[2], groups, o);
          },
          [=](std::int64_t n, std::int64_t c, std::int64_t) { return n * groups + c / (shape[1] / groups); }};
}

NormCase layer_case(const std::string& variant, const Shape& shape) {
  return {"layer_norm", variant, shape,
          [](std::span<const Var> in, const NormOptions& o) { return layer_norm(in[0], in[1], in[2], o); },
          [shape](std::int64_t n, std::int64_t, std::int64_t voxel) {
            return n * shape.spatial_numel() + voxel;
          }};
}

// Statistics in FP32 (F64 on the reference): mean c / 4 - 1, variance 0.5 + c / 8.
OpRow eval_row(const std::string& variant, const Shape& shape, const NormOptions& options = {}) {
  OpRow row = norm_row(batch_case(variant, shape), options);
  row.op = "batch_norm_eval";
  Values mean, variance;
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    mean.push_back(static_cast<double>(c) / 4 - 1);
    variance.push_back(0.5 + static_cast<double>(c) / 8);
  }
  row.build = [=](std::span<const Var> in) {
    const auto statistic = [&](const Values& v) {
      return Tensor::from_values(Shape{shape[1]}, v, accumulation_dtype(in[0].dtype()),
                                 in[0].value().device());
    };
    return batch_norm_eval(in[0], in[1], in[2], {statistic(mean), statistic(variance)}, options);
  };
  const auto argument = [=](const InputValues& in) {
    Values z = in[0];
    for (std::size_t i = 0; i < z.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(shape.spatial_numel()) % mean.size();
      z[i] = (z[i] - mean[c]) / std::sqrt(variance[c] + 1e-5) * in[1][c] + in[2][c];
    }
    return z;
  };
  row.formula = [=](const InputValues& in) {
    Values y = argument(in);
    for (double& z : y) z = activated(options.activation, options.slope, z);
    return y;
  };
  if (row.accept)
    row.accept = [=](const InputValues& in) {
      return std::ranges::all_of(argument(in), [](double z) { return std::abs(z) >= kMargin; });
    };
  return row;
}

void add_instance_rows(std::vector<OpRow>& rows) {
  for (const auto& [variant, shape] :
       std::vector<std::pair<std::string, Shape>>{{"1d", {2, 3, 17}},
                                                  {"2d", {1, 5, 7, 3}},
                                                  {"3d", {2, 3, 3, 4, 5}},
                                                  {"3dChannels33", {1, 33, 3, 3, 3}},
                                                  {"oneVoxel", {2, 3, 1, 1, 1}},
                                                  {"emptyBatch", {0, 3, 4, 4}}})
    rows.push_back(norm_row(instance_case(variant, shape)));
  rows.push_back(norm_row(instance_case("oneElement", {1, 1, 1})));
  rows.push_back(norm_row(instance_case("eps", {2, 3, 9}), {.eps = 0.1}));
  rows.back().formula = nullptr;  // the formula's eps is 1e-5
  rows.push_back(norm_row(instance_case("relu", {1, 3, 17}), {.activation = Activation::kRelu}));
  rows.push_back(norm_row(instance_case("leakyRelu", {2, 2, 3, 5}), {.activation = Activation::kLeakyRelu}));
  rows.push_back(norm_row(instance_case("leakyRelu3d", {1, 3, 3, 2, 3}),
                          {.activation = Activation::kLeakyRelu, .slope = 0.2}));
  rows.push_back(norm_row(instance_case("elu", {2, 2, 9}), {.activation = Activation::kElu, .slope = 0.7}));
  const std::pair<const char*, Activation> smooth[] = {
      {"gelu", Activation::kGelu}, {"geluTanh", Activation::kGeluTanh},
      {"silu", Activation::kSilu}, {"sigmoid", Activation::kSigmoid},
      {"tanh", Activation::kTanh}, {"softplus", Activation::kSoftplus}};
  for (const auto& [variant, activation] : smooth)
    rows.push_back(norm_row(instance_case(variant, {2, 3, 17}), {.activation = activation}));
  for (const Shape& shape : {Shape{2, 32, 13, 12, 17}, Shape{1, 5, 20, 21, 33}}) {
    rows.push_back(norm_row(instance_case("large" + std::to_string(shape[1]), shape)));
    rows.back().large = true;
  }
}

void add_batch_rows(std::vector<OpRow>& rows) {
  for (const auto& [variant, shape] : std::vector<std::pair<std::string, Shape>>{{"1d", {3, 3, 17}},
                                                                                 {"3d", {2, 5, 3, 2, 3}},
                                                                                 {"matrix", {7, 5}},
                                                                                 {"oneSample", {1, 3, 17}},
                                                                                 {"channels33", {2, 33, 5}},
                                                                                 {"emptyBatch", {0, 3, 4}}}) {
    rows.push_back(norm_row(batch_case(variant, shape)));
    rows.push_back(eval_row(variant, shape));
  }
  rows.push_back(norm_row(batch_case("relu", {2, 2, 11}), {.activation = Activation::kRelu}));
  rows.push_back(norm_row(batch_case("silu", {2, 3, 17}), {.activation = Activation::kSilu}));
  rows.push_back(eval_row("relu", {2, 2, 11}, {.activation = Activation::kRelu}));
  // Of two values xhat is +-1, and the gradient what a large eps leaves of it.
  rows.push_back(norm_row(batch_case("smallest", {2, 1}), {.eps = 0.5}));
  rows.back().formula = nullptr;
  rows.push_back(eval_row("oneVoxel", {1, 1, 1}));
  rows.push_back(norm_row(batch_case("large600", {3, 600, 4, 9, 11})));
  rows.back().large = true;
  rows.push_back(eval_row("large5", {2, 5, 20, 9, 31}));
  rows.back().large = true;
}

void add_group_and_layer_rows(std::vector<OpRow>& rows) {
  rows.push_back(norm_row(group_case("1d", {2, 6, 7}, 3)));
  rows.push_back(norm_row(group_case("3d", {2, 4, 3, 2, 3}, 2)));
  rows.push_back(norm_row(group_case("oneGroup", {2, 5, 7}, 1)));
  rows.push_back(norm_row(group_case("allGroups", {2, 5, 7}, 5)));
  rows.push_back(norm_row(group_case("matrix", {3, 12}, 4)));
  rows.push_back(norm_row(group_case("oneElement", {1, 1}, 1)));
  rows.push_back(norm_row(group_case("emptyBatch", {0, 4, 3}, 2)));
  rows.push_back(
      norm_row(group_case("leakyRelu", {1, 4, 5}, 2), {.activation = Activation::kLeakyRelu, .slope = 0.2}));
  rows.push_back(norm_row(group_case("geluTanh", {2, 6, 7}, 2), {.activation = Activation::kGeluTanh}));
  rows.push_back(norm_row(group_case("large1100", {2, 1100, 5, 9}, 2)));  // a group in two pieces of 512
  rows.back().large = true;
  rows.push_back(norm_row(group_case("large24", {2, 24, 13, 12, 17}, 8)));
  rows.back().large = true;
  rows.push_back(norm_row(layer_case("matrix", {7, 5})));
  rows.push_back(norm_row(layer_case("matrix70", {3, 70})));
  rows.push_back(norm_row(layer_case("3d", {2, 5, 3, 2, 3})));
  rows.push_back(norm_row(layer_case("channels33", {1, 33, 7})));
  rows.push_back(norm_row(layer_case("oneChannel", {2, 1, 3})));
  rows.push_back(norm_row(layer_case("oneElement", {1, 1})));
  rows.push_back(norm_row(layer_case("emptyBatch", {0, 4, 3})));
  rows.push_back(norm_row(layer_case("relu", {3, 7}), {.activation = Activation::kRelu}));
  rows.push_back(norm_row(layer_case("gelu", {3, 17}), {.activation = Activation::kGelu}));
  rows.push_back(norm_row(layer_case("large1100", {70, 1100})));
  rows.back().large = true;
  rows.push_back(norm_row(layer_case("large24", {2, 24, 13, 12, 17})));
  rows.back().large = true;
}

}  // namespace

std::vector<OpRow> norm_rows() {
  std::vector<OpRow> rows;
  add_instance_rows(rows);
  add_batch_rows(rows);
  add_group_and_layer_rows(rows);
  return rows;
}

std::vector<OpErrorRow> norm_errors() {
  return {{"batch_norm", "oneValue",
           [](Tape& t) {
             return batch_norm(var(t, {1, 3, 1}), var(t, {3}), var(t, {3}));
           },
           "[batch_norm] values per channel: got one in [1, 3, 1], expected at least two in training"},
          {"batch_norm", "axes", [](Tape& t) { return batch_norm(var(t, {3}), var(t, {3}), var(t, {3})); },
           "[batch_norm] axes of the input: got [3], expected [N, C] or [N, C, spatial]"},
          {"batch_norm", "scale",
           [](Tape& t) {
             return batch_norm(var(t, {4, 3}), var(t, {4}), var(t, {3}));
           },
           "[batch_norm] scale: got F32 [4], expected F32 [3] for input [4, 3]"},
          {"batch_norm_eval", "variance",
           [](Tape& t) {
             const Tensor three = var(t, {3}).value(), four = var(t, {4}).value();
             return batch_norm_eval(var(t, {4, 3}), var(t, {3}), var(t, {3}), {three, four});
           },
           "[batch_norm_eval] variance: got F32 [4], expected F32 [3] for input [4, 3]"},
          {"group_norm", "groups",
           [](Tape& t) {
             return group_norm(var(t, {2, 6, 5}), var(t, {6}), var(t, {6}), 4);
           },
           "[group_norm] groups: got 4, expected a divisor of 6 for input [2, 6, 5]"},
          {"group_norm", "noVoxels",
           [](Tape& t) {
             return group_norm(var(t, {2, 6, 0}), var(t, {6}), var(t, {6}), 2);
           },
           "[group_norm] channels and voxels of the input: got [2, 6, 0], expected at least one"},
          {"layer_norm", "eps",
           [](Tape& t) {
             return layer_norm(var(t, {2, 6}), var(t, {6}), var(t, {6}), {.eps = 0});
           },
           "[layer_norm] eps: got 0, expected > 0"}};
}

}  // namespace tandem::testing
