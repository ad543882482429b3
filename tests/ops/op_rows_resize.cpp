// Rows of resize, crop, pad, transpose, global pooling and dropout, and their error rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/rng.h"
#include "core/ops/box.h"
#include "core/ops/dropout.h"
#include "core/ops/pool.h"
#include "core/ops/resize.h"
#include "core/tensor/layout.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

using Index = std::array<std::int64_t, 3>;
using Weights = std::vector<std::pair<std::int64_t, double>>;  // input position and share

// PyTorch's interpolate with size= and align_corners=False along one axis, in FP32 as it computes them.
Weights taps_formula(std::int64_t in, std::int64_t out, std::int64_t o, ResizeMode mode) {
  const float scale = static_cast<float>(in) / static_cast<float>(out), at = static_cast<float>(o);
  if (mode != ResizeMode::kLinear) {
    const float source = std::floor(scale * (mode == ResizeMode::kNearest ? at : at + 0.5f));
    return {{std::min(static_cast<std::int64_t>(source), in - 1), 1}};
  }
  const float source = std::max(scale * (at + 0.5f) - 0.5f, 0.0f);
  const auto low = std::min(static_cast<std::int64_t>(source), in - 1);
  const auto high = std::min(low + 1, in - 1);
  const double share = static_cast<double>(source - static_cast<float>(low));
  return {{low, 1 - share}, {high, share}};
}

Values resize_formula(const Shape& shape, const Values& x, const Index& size, ResizeMode mode) {
  const Index in = shape.spatial();
  Values y;
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (std::int64_t o = 0; o < size[0] * size[1] * size[2]; ++o) {
      double sum = 0;
      for (const auto& [d, wd] : taps_formula(in[0], size[0], o / size[1] / size[2], mode))
        for (const auto& [h, wh] : taps_formula(in[1], size[1], o / size[2] % size[1], mode))
          for (const auto& [w, ww] : taps_formula(in[2], size[2], o % size[2], mode))
            sum += wd * wh * ww * x[static_cast<std::size_t>(((plane * in[0] + d) * in[1] + h) * in[2] + w)];
      y.push_back(sum);
    }
  return y;
}

OpRow resize_row(const std::string& variant, const Shape& shape, const Index& size, ResizeMode mode) {
  OpRow row{.op = "resize", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) { return resize(in[0], size, mode); };
  row.forward_sum = 8;
  row.backward_sum = std::max<std::int64_t>(8, size[0] * size[1] * size[2] / shape.spatial_numel() * 8);
  row.formula = [=](const InputValues& in) {
    Index inside = size;
    for (int a = 0; a < 3 - shape.spatial_rank(); ++a) inside[static_cast<std::size_t>(a)] = 1;
    return resize_formula(shape, in[0], inside, mode);
  };
  return row;
}

void add_resize_rows(std::vector<OpRow>& rows) {
  const std::pair<const char*, ResizeMode> modes[] = {{"Linear", ResizeMode::kLinear},
                                                      {"Nearest", ResizeMode::kNearest},
                                                      {"NearestExact", ResizeMode::kNearestExact}};
  for (const auto& [name, mode] : modes) {
    const std::string suffix = name;
    rows.push_back(resize_row("1dUp" + suffix, {2, 3, 5}, {1, 1, 12}, mode));
    rows.push_back(resize_row("1dDown" + suffix, {2, 3, 17}, {1, 1, 5}, mode));
    rows.push_back(resize_row("2dTwice" + suffix, {1, 5, 3, 4}, {1, 6, 8}, mode));
    rows.push_back(resize_row("2dMixed" + suffix, {1, 17, 7, 3}, {1, 3, 5}, mode));
    rows.push_back(resize_row("3d" + suffix, {1, 3, 3, 2, 4}, {4, 5, 3}, mode));
    rows.push_back(resize_row("3dChannels33" + suffix, {1, 33, 2, 2, 2}, {4, 4, 4}, mode));
    rows.push_back(resize_row("same" + suffix, {1, 2, 3, 3}, {1, 3, 3}, mode));
    rows.push_back(resize_row("fromOneVoxel" + suffix, {1, 2, 1, 1, 1}, {2, 3, 1}, mode));
    rows.push_back(resize_row("toOneVoxel" + suffix, {1, 2, 4, 3}, {1, 1, 1}, mode));
    rows.push_back(resize_row("oneElement" + suffix, {1, 1, 1}, {1, 1, 2}, mode));
    rows.push_back(resize_row("emptyBatch" + suffix, {0, 3, 4, 4}, {1, 2, 6}, mode));
    rows.push_back(resize_row("large" + suffix, {1, 20, 9, 8, 17}, {18, 16, 34}, mode));
    rows.back().large = true;
  }
}

OpRow crop_row(const std::string& variant, const Shape& shape, const Index& begin, const Index& size) {
  OpRow row{.op = "crop", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) { return crop(in[0], begin, size); };
  row.formula = [=](const InputValues& in) {
    const Index from = shape.spatial();
    Values y;
    for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
      for (std::int64_t d = begin[0]; d < begin[0] + size[0]; ++d)
        for (std::int64_t h = begin[1]; h < begin[1] + size[1]; ++h)
          for (std::int64_t w = begin[2]; w < begin[2] + size[2]; ++w)
            y.push_back(in[0][static_cast<std::size_t>(((plane * from[0] + d) * from[1] + h) * from[2] + w)]);
    return y;
  };
  return row;
}

OpRow pad_row(const std::string& variant, const Shape& shape, const Index& before, const Index& after) {
  OpRow row{.op = "pad", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) { return pad(in[0], before, after); };
  row.formula = [=](const InputValues& in) {
    const Index from = shape.spatial();
    Values y;
    for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
      for (std::int64_t d = -before[0]; d < from[0] + after[0]; ++d)
        for (std::int64_t h = -before[1]; h < from[1] + after[1]; ++h)
          for (std::int64_t w = -before[2]; w < from[2] + after[2]; ++w) {
            const bool inside = d >= 0 && d < from[0] && h >= 0 && h < from[1] && w >= 0 && w < from[2];
            const std::int64_t at = ((plane * from[0] + d) * from[1] + h) * from[2] + w;
            y.push_back(inside ? in[0][static_cast<std::size_t>(at)] : 0.0);
          }
    return y;
  };
  return row;
}

// Row-major strides over the logical order, both sides.
Values transpose_formula(const Shape& shape, const Values& x, const std::vector<int>& order) {
  std::vector<std::int64_t> stride(order.size(), 1);
  for (std::size_t a = order.size(); a-- > 1;) stride[a - 1] = stride[a] * shape[static_cast<int>(a)];
  Values y;
  for (std::size_t n = 0; n < x.size(); ++n) {
    std::int64_t rest = static_cast<std::int64_t>(n), from = 0;
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::int64_t size = shape[order[i]];
      from += rest % size * stride[static_cast<std::size_t>(order[i])];
      rest /= size;
    }
    y.push_back(x[static_cast<std::size_t>(from)]);
  }
  return y;
}

OpRow transpose_row(const std::string& variant, const Shape& shape, const std::vector<int>& order) {
  OpRow row{.op = "transpose", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) { return transpose(in[0], order); };
  row.formula = [=](const InputValues& in) { return transpose_formula(shape, in[0], order); };
  return row;
}

void add_box_rows(std::vector<OpRow>& rows) {
  rows.push_back(crop_row("1d", {2, 3, 17}, {0, 0, 4}, {1, 1, 9}));
  rows.push_back(crop_row("2d", {1, 5, 4, 7}, {0, 1, 0}, {1, 3, 5}));
  rows.push_back(crop_row("3d", {2, 3, 4, 3, 5}, {1, 0, 2}, {2, 3, 3}));
  rows.push_back(crop_row("whole", {1, 2, 3, 4}, {0, 0, 0}, {1, 3, 4}));
  rows.push_back(crop_row("oneElement", {1, 1, 1}, {0, 0, 0}, {1, 1, 1}));
  rows.push_back(crop_row("emptyBatch", {0, 3, 4}, {0, 0, 1}, {1, 1, 2}));
  rows.push_back(crop_row("large", {2, 5, 20, 19, 31}, {3, 1, 4}, {15, 17, 22}));
  rows.back().large = true;
  rows.push_back(pad_row("1d", {2, 3, 5}, {0, 0, 2}, {0, 0, 1}));
  rows.push_back(pad_row("2d", {1, 5, 4, 3}, {0, 1, 0}, {0, 0, 3}));
  rows.push_back(pad_row("3d", {2, 3, 2, 3, 2}, {1, 0, 2}, {1, 2, 0}));
  rows.push_back(pad_row("nothing", {1, 2, 3, 4}, {0, 0, 0}, {0, 0, 0}));
  rows.push_back(pad_row("oneElement", {1, 1, 1}, {0, 0, 1}, {0, 0, 2}));
  rows.push_back(pad_row("emptyBatch", {0, 3, 4}, {0, 0, 1}, {0, 0, 1}));
  rows.push_back(transpose_row("matrix", {3, 17}, {1, 0}));
  rows.push_back(transpose_row("channelsLast", {2, 3, 4, 5}, {0, 2, 3, 1}));
  rows.push_back(transpose_row("mirrored", {2, 3, 2, 4, 5}, {4, 3, 2, 1, 0}));
  rows.push_back(transpose_row("spatial", {1, 5, 3, 4, 2}, {0, 1, 4, 2, 3}));
  rows.push_back(transpose_row("identity", {2, 3, 5}, {0, 1, 2}));
  rows.push_back(transpose_row("vector", {7}, {0}));
  rows.push_back(transpose_row("sixAxes", {2, 3, 2, 1, 4, 2}, {5, 1, 3, 0, 4, 2}));
  rows.push_back(transpose_row("oneElement", {1}, {0}));
  rows.push_back(transpose_row("emptyBatch", {0, 3, 5}, {2, 1, 0}));
  rows.push_back(transpose_row("large", {2, 70, 40, 33}, {0, 3, 1, 2}));
  rows.back().large = true;
  rows.push_back(transpose_row("largeMatrix", {300, 257}, {1, 0}));
  rows.back().large = true;
}

OpRow global_row(const std::string& variant, const Shape& shape, bool max) {
  OpRow row{.op = max ? "global_max_pool" : "global_avg_pool",
            .variant = variant,
            .inputs = {{.shape = shape, .distinct = max}}};
  row.build = [max](std::span<const Var> in) {
    return max ? global_max_pool(in[0]) : global_avg_pool(in[0]);
  };
  row.forward_sum = max ? 1 : shape.spatial_numel();
  row.formula = [=](const InputValues& in) {
    Values y;
    const std::int64_t voxels = shape.spatial_numel();
    for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
      const auto first = in[0].begin() + plane * voxels;
      y.push_back(max ? *std::max_element(first, first + voxels)
                      : std::accumulate(first, first + voxels, 0.0) / static_cast<double>(voxels));
    }
    return y;
  };
  return row;
}

// Draw i of the stream belongs to element i of the storage.
OpRow dropout_row(const std::string& variant, const Shape& shape, double p) {
  OpRow row{.op = "dropout", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [p](std::span<const Var> in) { return dropout(in[0], p); };
  row.formula = [=](const InputValues& in) {
    RandomStream stream(0, RandomPurpose::kDropout, 0, 0);
    std::vector<bool> kept;
    for (std::int64_t i = 0; i < shape.numel(); ++i)
      kept.push_back(static_cast<double>(stream.bits()) >= p * 0x1p32);
    Values y(in[0].size());
    for_each_element(shape, shape.channels(), [&](std::int64_t logical, std::int64_t stored) {
      const bool keep = kept[static_cast<std::size_t>(stored)];
      y[static_cast<std::size_t>(logical)] = keep ? in[0][static_cast<std::size_t>(logical)] / (1 - p) : 0.0;
    });
    return y;
  };
  return row;
}

}  // namespace

std::vector<OpRow> resize_rows() {
  std::vector<OpRow> rows;
  add_resize_rows(rows);
  add_box_rows(rows);
  for (const bool max : {false, true}) {
    rows.push_back(global_row("1d", {2, 3, 17}, max));
    rows.push_back(global_row("2d", {1, 5, 3, 7}, max));
    rows.push_back(global_row("3d", {2, 17, 2, 3, 4}, max));
    rows.push_back(global_row("oneVoxel", {2, 3, 1, 1, 1}, max));
    rows.push_back(global_row("oneElement", {1, 1, 1}, max));
    rows.push_back(global_row("emptyBatch", {0, 3, 4}, max));
  }
  rows.push_back(global_row("large", {2, 5, 20, 19, 31}, false));
  rows.back().large = true;
  rows.push_back(dropout_row("1d", {2, 3, 17}, 0.5));
  rows.push_back(dropout_row("3d", {1, 5, 3, 2, 7}, 0.25));
  rows.push_back(dropout_row("matrix", {3, 17}, 0.9));
  rows.push_back(dropout_row("nothing", {2, 3, 5}, 0));
  rows.push_back(dropout_row("oneElement", {1, 1}, 0.5));
  rows.push_back(dropout_row("emptyBatch", {0, 3, 4}, 0.5));
  rows.push_back(dropout_row("large", {2, 5, 20, 19, 31}, 0.3));
  rows.back().large = true;
  return rows;
}

std::vector<OpErrorRow> resize_errors() {
  return {{"resize", "size",
           [](Tape& t) {
             return resize(var(t, {1, 3, 4, 4}), {1, 0, 4});
           },
           "[resize] size: got 0, expected 1 to 1048576"},
          {"crop", "outside",
           [](Tape& t) {
             return crop(var(t, {1, 3, 4, 4}), {0, 2, 0}, {1, 3, 4});
           },
           "[crop] the box leaves the input: got begin [2, 0] and size [3, 4], input [1, 3, 4, 4]"},
          {"crop", "negative",
           [](Tape& t) {
             return crop(var(t, {1, 3, 4, 4}), {0, -1, 0}, {1, 3, 4});
           },
           "[crop] begin: got -1, expected 0 to 1048576"},
          {"pad", "negative",
           [](Tape& t) {
             return pad(var(t, {1, 3, 4}), {0, 0, 0}, {0, 0, -2});
           },
           "[pad] after: got -2, expected 0 to 1048576"},
          {"transpose", "repeated",
           [](Tape& t) {
             return transpose(var(t, {1, 3, 4}), std::array{0, 2, 2});
           },
           "[transpose] order: got [0, 2, 2], expected each axis of input [1, 3, 4] once"},
          {"transpose", "tooFew",
           [](Tape& t) {
             return transpose(var(t, {1, 3, 4}), std::array{0, 1});
           },
           "[transpose] order: got [0, 1], expected each axis of input [1, 3, 4] once"},
          {"global_avg_pool", "axes",
           [](Tape& t) {
             return global_avg_pool(var(t, {3, 4}));
           },
           "[global_avg_pool] axes of the input: got [3, 4], expected [N, C, W], [N, C, H, W] or [N, C, D, "
           "H, W]"},
          {"global_max_pool", "noVoxels",
           [](Tape& t) {
             return global_max_pool(var(t, {3, 4, 0}));
           },
           "[global_max_pool] voxels of the input: got [3, 4, 0], expected at least one"},
          {"dropout", "p",
           [](Tape& t) {
             return dropout(var(t, {3, 4}), 1);
           },
           "[dropout] p: got 1, expected 0 <= p < 1"}};
}

}  // namespace tandem::testing
