// Every row of the op table with a first input that does not fit: integers, a view of some channels, too
// few and too many axes. Each is refused with a text that shows the operand; none is computed with.
#include <gtest/gtest.h>

#include <set>

#include "tests/ops/op_run.h"

namespace tandem::testing {
namespace {

// Ops of tensors of any number of axes; their rows may still fix it by another input.
const std::set<std::string> kAnyRank{
    "relu",    "leaky_relu", "prelu",      "elu",        "gelu",          "gelu_tanh", "silu",
    "sigmoid", "tanh",       "softplus",   "add",        "mul",           "bias",      "cast",
    "dropout", "sum",        "mean",       "softmax",    "log_softmax",   "concat",    "reshape",
    "flatten", "batch_norm", "group_norm", "layer_norm", "instance_norm", "transpose", "batch_norm_eval"};

// What the device computes in.
DType float_of(const Device& device) { return device == kReferenceDevice ? DType::kF64 : DType::kF32; }

std::string row_name(const ::testing::TestParamInfo<std::size_t>& info) {
  return op_table()[info.param].op + "_" + op_table()[info.param].variant;
}

std::vector<std::size_t> small_rows() {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < op_table().size(); ++i)
    if (!op_table()[i].large && !op_table()[i].inputs.empty()) all.push_back(i);
  return all;
}

class BadInputs : public ::testing::TestWithParam<std::size_t> {
 protected:
  const OpRow& row() const { return op_table()[GetParam()]; }

  // The text of the error of a call with `first` in the place of the first input; "" where there is none.
  std::string text_with(const Tensor& first) const {
    Tape tape({.device = first.device()});
    std::vector<Var> inputs{tape.constant(first)};
    for (std::size_t i = 1; i < row().inputs.size(); ++i)
      inputs.push_back(
          tape.constant(Tensor::zeros(row().inputs[i].shape, float_of(first.device()), first.device())));
    try {
      row().build(inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kShape) << error.text();
      EXPECT_TRUE(error.text().starts_with("[")) << error.text();
      return error.text();
    }
    return "";
  }
  // The error shows `operand` and what does not fit.
  void expect_refused(const Tensor& first, const std::string& operand) const {
    const std::string text = text_with(first);
    EXPECT_NE(text.find(operand), std::string::npos) << "got '" << text << "' for " << to_string(first);
    EXPECT_TRUE(text.find(": got ") != std::string::npos || text.find("differ") != std::string::npos ||
                text.find("do not match") != std::string::npos)
        << text;
  }
};

const Device kDevices[] = {kCpuDevice, kReferenceDevice};

TEST_P(BadInputs, IntegersAreRefused) {
  for (const Device& device : kDevices)
    expect_refused(Tensor::zeros(row().inputs[0].shape, DType::kI32, device), "I32");
}

TEST_P(BadInputs, AViewOfSomeChannelsIsRefused) {
  const Shape& shape = row().inputs[0].shape;
  if (shape.rank() < 2) return;
  for (const Device& device : kDevices) {
    const Tensor wide = Tensor::zeros(shape.with(1, shape[1] + 3), float_of(device), device);
    const Tensor view = wide.slice_channels(1, shape[1]);
    if (!view.is_packed() && view.shape().numel() > 0) expect_refused(view, "is a view of some channels");
  }
}

// Rank 2 and rank 6, with the row's channels, where the row has another. What is not refused is computed
// with.
TEST_P(BadInputs, TooFewAndTooManyAxesAreRefused) {
  const Shape& shape = row().inputs[0].shape;
  const std::int64_t channels = shape.channels();
  for (const Device& device : kDevices)
    for (const Shape& other : {Shape{2, channels}, Shape{2, channels, 2, 1, 1, 2}}) {
      if (other.rank() == shape.rank()) continue;
      const Tensor first = Tensor::zeros(other, float_of(device), device);
      if (!kAnyRank.contains(row().op) || !text_with(first).empty()) expect_refused(first, to_string(other));
    }
}

INSTANTIATE_TEST_SUITE_P(All, BadInputs, ::testing::ValuesIn(small_rows()), row_name);

}  // namespace
}  // namespace tandem::testing
