// Names, registration order, and the path of modules in errors.
#include "layers/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/pool.h"
#include "core/ops/shape_ops.h"
#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/norm.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Context kReference{.device = kReferenceDevice, .compute = DType::kF64, .seed = 3};

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const NamedParameter& p : module.parameters()) names.push_back(p.name);
  return names;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Block : Module {
  Conv conv1;
  InstanceNorm norm1;
  Parameter gain{Shape{4}, ParamRegion::kKept, {Initializer::Kind::kOnes}};
  Block() : conv1({.dims = 2, .in = 2, .out = 4, .kernel = 3, .padding = 1}), norm1({.channels = 4}) {
    add("norm1", norm1);
    add("gain", gain);
    add("conv1", conv1);
  }
  Outputs forward(const Var& x) override { return norm1(conv1(x)); }
};

struct Net : Module {
  Block enc0;
  Conv head;
  explicit Net(std::int64_t head_in = 4) : head({.dims = 2, .in = head_in, .out = 3, .kernel = 1}) {
    add("enc0", enc0);
    add("head", head);
  }
  Outputs forward(const Var& x) override { return head(enc0(x)); }
};

Var image(Tape& tape, std::int64_t channels) {
  return tape.constant(Tensor::zeros(Shape{1, channels, 5, 5}, DType::kF64, kReferenceDevice));
}

TEST(Module, ParametersKeepTheOrderOfRegistration) {
  Net net;
  EXPECT_THAT(names_of(net), ElementsAre("enc0.norm1.weight", "enc0.norm1.bias", "enc0.gain",
                                         "enc0.conv1.weight", "enc0.conv1.bias", "head.weight", "head.bias"));
}

TEST(Module, NamesAreUniqueAndHaveNoDots) {
  struct Wrong : Module {
    Conv a;
    explicit Wrong(const std::vector<std::string>& names) : a({.in = 1, .out = 1}) {
      for (const std::string& name : names) add(name, a);
    }
    Outputs forward(const Var& x) override { return x; }
  };
  EXPECT_THAT(error_of([] { Wrong({"a", "a"}); }), HasSubstr("two members named 'a'"));
  EXPECT_THAT(error_of([] { Wrong({"a.b"}); }), HasSubstr("a member name that is empty or has a dot: 'a.b'"));
  EXPECT_THAT(error_of([] { Wrong({""}); }), HasSubstr("empty or has a dot"));
}

TEST(Module, AnErrorInForwardSaysWhichModule) {
  Net net;
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference);
  EXPECT_THAT(error_of([&] { net(image(tape, 5)); }), HasSubstr("(module enc0.conv1)"));
  Net wrong_head(6);
  const ParamStore other(wrong_head.parameters(), kReference, {});
  EXPECT_THAT(error_of([&] { wrong_head(image(tape, 2)); }), HasSubstr("(module head)"));
}

// An op whose backward fails: its path is the one it was recorded under.
Var failing_op(const Var& x) {
  return x.tape().record("failing", x.value(), {x}, [](const Tensor&) {
    throw Error(ErrorKind::kNumeric, "[failing] backward: got nothing, expected something");
  });
}

TEST(Module, AnErrorInBackwardSaysWhichModule) {
  struct Inner : Module {
    Outputs forward(const Var& x) override { return failing_op(x); }
  };
  struct Outer : Module {
    Inner inner;
    Outer() { add("inner", inner); }
    Outputs forward(const Var& x) override { return inner(x); }
  };
  struct Root : Module {
    Outer outer;
    Root() { add("outer", outer); }
    Outputs forward(const Var& x) override { return outer(x); }
  };
  Root root;
  Tape tape(kReference);
  const Var loss = root(tape.variable(Tensor::zeros(Shape{1}, DType::kF64, kReferenceDevice)));
  EXPECT_THAT(error_of([&] { tape.backward(loss); }), HasSubstr("(module outer.inner)"));
}

TEST(Module, AFailedForwardLeavesNoNameOnTheTape) {
  Net net;
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference);
  EXPECT_NE(error_of([&] { net(image(tape, 5)); }), "no error");
  const Var loss = failing_op(tape.variable(Tensor::zeros(Shape{1}, DType::kF64, kReferenceDevice)));
  EXPECT_THAT(error_of([&] { tape.backward(loss); }), testing::Not(HasSubstr("module")));
}

TEST(Module, AnEvaluationTapeRecordsNothing) {
  Net net;
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference, /*record=*/false);
  const Var y = net(image(tape, 2));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.shape(), (Shape{1, 3, 5, 5}));
}

// style.md 4.6: how a user writes a model.
struct DefectNet : Module {
  Conv stem, body;
  Linear head;
  explicit DefectNet(int classes)
      : stem({.dims = 2, .in = 1, .out = 16, .kernel = 3, .padding = 1}),
        body({.dims = 2, .in = 16, .out = 32, .kernel = {1, 3, 5}, .stride = 2, .padding = {0, 1, 2}}),
        head({.in = 32, .out = classes}) {
    add("stem", stem);
    add("body", body);
    add("head", head);
  }
  Outputs forward(const Var& x) override {
    Var h = relu(stem(x));
    h = relu(body(max_pool(h, {})));
    return head(flatten(global_avg_pool(h)));
  }
};

TEST(Module, OptionsReadAsInTheGuide) {
  const Conv braces{{.dims = 2, .in = 1, .out = 16, .kernel = 3, .padding = 1}};
  EXPECT_EQ(braces.options().kernel, (Triple{3, 3, 3}));
  DefectNet net(4);
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference);
  const Var y = net(image(tape, 1));
  EXPECT_EQ(y.shape(), (Shape{1, 4}));
  EXPECT_EQ(net.parameters()[2].parameter->shape(), (Shape{32, 16, 3, 5}));
}

}  // namespace
}  // namespace tandem
