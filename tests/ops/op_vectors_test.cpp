// Values of PyTorch (tests/refs/op_vectors.py) for activations, norms and resize, in FP32 on the CPU.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "core/autograd/gradcheck.h"
#include "core/ops/elementwise.h"
#include "core/ops/norm.h"
#include "core/ops/resize.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

Tensor tensor(const Shape& shape, const Values& v) { return Tensor::from_values(shape, v, DType::kF32); }

void expect_near(const Values& got, const Values& want, double tolerance, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << where << " " << i;
}

TEST(OpVectors, Resize) {
  Tape tape(Context{});
  const Var x = tape.constant(tensor({1, 1, 4}, {0, 1, -2, 5}));
  const auto line = [&](std::int64_t size, ResizeMode mode) {
    return resize(x, {1, 1, size}, mode).value().to_values();
  };
  EXPECT_EQ(line(7, ResizeMode::kNearest), (Values{0, 0, 1, 1, -2, -2, 5}));
  EXPECT_EQ(line(3, ResizeMode::kNearest), (Values{0, 1, -2}));
  EXPECT_EQ(line(7, ResizeMode::kNearestExact), (Values{0, 0, 1, -2, -2, 5, 5}));
  EXPECT_EQ(line(3, ResizeMode::kNearestExact), (Values{0, -2, 5}));
  expect_near(line(7, ResizeMode::kLinear), {0, 0.357142925, 0.928571463, -0.5, -1.49999857, 2.50000119, 5},
              3e-6, "linear 7");
  expect_near(line(3, ResizeMode::kLinear), {0.166666687, -0.5, 3.83333445}, 1e-6, "linear 3");
  Values squares;
  for (int i = 0; i < 12; ++i) squares.push_back(i * i / 8.0);
  const Var volume = tape.constant(tensor({1, 1, 2, 2, 3}, squares));
  expect_near(resize(volume, {3, 3, 2}).value().to_values(),
              {0.03125, 0.40625, 0.6875, 1.625, 1.34375, 2.84375, 2.46875, 3.96875, 4.25, 6.3125, 6.03125,
               8.65625, 4.90625, 7.53125, 7.8125, 11, 10.71875, 14.46875},
              2e-6, "trilinear");
}

TEST(OpVectors, ActivationsAndTheirGradients) {
  const struct {
    std::string name;
    std::function<Var(const Var&)> f;
    Values y, dx;
  } rows[] = {{"elu",
               [](const Var& x) { return elu(x); },
               {-0.950212955, -0.393469334, 0.25, 2},
               {0.0497870669, 0.606530666, 1, 1}},
              {"gelu",
               gelu,
               {-0.00404986739, -0.154268786, 0.149676561, 1.95449996},
               {-0.0119456053, 0.13250491, 0.695373297, 1.0852319}},
              {"gelu_tanh",
               gelu_tanh,
               {-0.00363743305, -0.154285997, 0.149675354, 1.95459771},
               {-0.0115842968, 0.13263011, 0.695354104, 1.08609927}},
              {"silu",
               silu,
               {-0.142277613, -0.188770339, 0.140544131, 1.76159406},
               {-0.0881041065, 0.260038823, 0.623710036, 1.09078431}},
              {"sigmoid",
               sigmoid,
               {0.0474258736, 0.377540678, 0.562176526, 0.880797029},
               {0.0451766588, 0.23500371, 0.246134073, 0.104993626}},
              {"tanh",
               [](const Var& x) { return tanh(x); },
               {-0.995054781, -0.462117165, 0.244918659, 0.964027584},
               {0.00986598153, 0.786447704, 0.940014839, 0.070650816}},
              {"softplus",
               softplus,
               {0.048587352, 0.474076986, 0.825939417, 2.12692809},
               {0.0474258736, 0.377540678, 0.562176526, 0.880797088}}};
  for (const auto& row : rows) {
    Tape tape(Context{});
    const Var x = tape.variable(tensor({1, 4}, {-3, -0.5, 0.25, 2}));
    const Var y = row.f(x);
    expect_near(y.value().to_values(), row.y, 3e-7, row.name);
    tape.backward(weighted_sum(y, Values(4, 1)));
    expect_near(x.grad().to_values(), row.dx, 5e-7, "gradient of " + row.name);
  }
}

TEST(OpVectors, NormsAndTheirGradients) {
  const Values x{1, 2, 0, -1, 3, -2, 1, 0.5};
  const auto check = [&](const std::string& name, const std::function<Var(const Var&, Var, Var)>& f,
                         const std::array<Values, 3>& weights_y_dx) {
    Tape tape(Context{});
    const Var in = tape.variable(tensor({2, 4}, x));
    const Var y = f(in, tape.constant(tensor({4}, Values(4, 1))), tape.constant(tensor({4}, Values(4, 0))));
    expect_near(y.value().to_values(), weights_y_dx[1], 1e-6, name);
    tape.backward(weighted_sum(y, weights_y_dx[0]));
    expect_near(in.grad().to_values(), weights_y_dx[2], 4e-6, "gradient of " + name);
  };
  const Values rows{1, -2, 0.5, 3, 1, -2, 0.5, 3};
  check("layer_norm", [](const Var& in, const Var& w, const Var& b) { return layer_norm(in, w, b); },
        {rows,
         {0.447211832, 1.34163547, -0.447211832, -1.34163547, 1.33353651, -1.47390878, 0.210558385,
          -0.0701861307},
         {0.983860731, -0.402506232, -0.760254979, 0.178900123, -0.571167469, -0.609895945, -0.193616539,
          1.3746798}});
  check("group_norm", [](const Var& in, const Var& w, const Var& b) { return group_norm(in, w, b, 2); },
        {rows,
         {-0.999979973, 0.999979973, 0.999979973, -0.999979973, 0.999999166, -0.999999166, 0.999920011,
          -0.999920011},
         {0.000120162964, -0.000120162964, -0.000100135803, 0.000100135803, 9.23871994e-07, -9.53674316e-07,
          -0.000799179077, 0.000801086426}});
  check("batch_norm", [](const Var& in, const Var& w, const Var& b) { return batch_norm(in, w, b); },
        {Values{1, -2, 0.5, 3, 0, 1, 1, 1},
         {-0.999994993, 0.999998748, -0.999979973, -0.999991059, 0.999994993, -0.999998748, 0.999979973,
          0.999991059},
         {5.00676515e-06, -1.90734625e-06, -2.00267605e-05, 2.38416451e-05, -5.00676515e-06, 1.90734625e-06,
          2.00267605e-05, -2.38416451e-05}});
}

}  // namespace
}  // namespace tandem::testing
