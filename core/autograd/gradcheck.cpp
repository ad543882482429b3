// Central differences against the tape.
#include "core/autograd/gradcheck.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace tandem {
namespace {

constexpr int kDirections = 64;

using Values = std::vector<double>;

// Evaluates the weighted sum of the function's output.
class Problem {
 public:
  Problem(const DifferentiableFunction& function, std::span<const Tensor> inputs, std::uint64_t seed)
      : function_(function), inputs_(inputs.begin(), inputs.end()) {
    for (const Tensor& input : inputs_)
      if (input.dtype() != DType::kF64 || input.device() != kReferenceDevice)
        fail(ErrorKind::kShape, "[gradcheck] input: got {} on {}, expected F64 on reference",
             to_string(input), name(input.device()));
    Tape tape({.device = kReferenceDevice, .compute = DType::kF64}, false);
    const Var y = function_(variables(tape));
    RandomStream random(seed, RandomPurpose::kSynthetic, 0, 0);
    for (std::int64_t i = 0; i < y.shape().numel(); ++i)
      weights_.push_back(random.uniform(0.5, 1.5) * sign(random));
  }

  double value() const {
    Tape tape({.device = kReferenceDevice, .compute = DType::kF64}, false);
    return weighted_sum(function_(variables(tape)), weights_).value().to_values()[0];
  }

  // The gradient of every input, in logical order.
  std::vector<Values> gradients() const {
    Tape tape({.device = kReferenceDevice, .compute = DType::kF64});
    const std::vector<Var> inputs = variables(tape);
    tape.backward(weighted_sum(function_(inputs), weights_));
    std::vector<Values> result;
    for (const Var& input : inputs)
      result.push_back(input.grad().defined() ? input.grad().to_values()
                                              : Values(static_cast<std::size_t>(input.shape().numel())));
    return result;
  }

  // (f(x + step d) - f(x - step d)) / (2 step), with d a direction in the space of one input.
  double derivative(std::size_t input, const Values& direction, double step) {
    const Tensor original = inputs_[input];
    const Values x = original.to_values();
    double difference = 0;
    for (const double side : {1.0, -1.0}) {
      Values moved = x;
      for (std::size_t i = 0; i < x.size(); ++i) moved[i] += side * step * direction[i];
      inputs_[input] = Tensor::from_values(original.shape(), moved, DType::kF64, kReferenceDevice);
      difference += side * value();
    }
    inputs_[input] = original;
    return difference / (2 * step);
  }

 private:
  static double sign(RandomStream& random) { return random.below(2) == 0 ? 1.0 : -1.0; }

  std::vector<Var> variables(Tape& tape) const {
    std::vector<Var> result;
    for (const Tensor& input : inputs_) result.push_back(tape.variable(input));
    return result;
  }

  const DifferentiableFunction& function_;
  std::vector<Tensor> inputs_;
  Values weights_;
};

// Keeps the worst mismatch.
class Judge {
 public:
  explicit Judge(const GradcheckOptions& options) : options_(options) {}

  void compare(const std::string& where, double analytic, double numeric) {
    const double allowed = options_.absolute + options_.relative * std::abs(numeric);
    const double excess = std::abs(analytic - numeric) / allowed;
    if (excess <= 1 || (excess <= worst_)) return;  // a NaN goes on
    worst_ = std::isnan(excess) ? INFINITY : excess;
    result_.ok = false;
    result_.text = fmt::format("{}: analytic {:.12g}, numeric {:.12g}, allowed difference {:.3g}", where,
                               analytic, numeric, allowed);
  }
  const GradcheckResult& result() const { return result_; }

 private:
  const GradcheckOptions& options_;
  double worst_ = 0;
  GradcheckResult result_;
};

void check_elements(Problem& problem, std::size_t input, const Values& gradient, double step, Judge& judge) {
  Values direction(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    direction[i] = 1;
    judge.compare(fmt::format("input {}, element {}", input, i), gradient[i],
                  problem.derivative(input, direction, step));
    direction[i] = 0;
  }
}

void check_directions(Problem& problem, std::size_t input, const Values& gradient,
                      const GradcheckOptions& options, Judge& judge) {
  for (std::uint64_t k = 0; k < kDirections; ++k) {
    RandomStream random(options.seed, RandomPurpose::kSynthetic, 1 + input, k);
    Values direction(gradient.size());
    double analytic = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = random.normal();
      analytic += direction[i] * gradient[i];
    }
    judge.compare(fmt::format("input {}, direction {}", input, k), analytic,
                  problem.derivative(input, direction, options.step));
  }
}

}  // namespace

Var weighted_sum(const Var& y, std::span<const double> weights) {
  const Values values = y.value().to_values();
  check_internal(values.size() == weights.size(), "a weighted sum with another number of weights");
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  const Device device = y.value().device();
  const Tensor result = Tensor::from_values(Shape{1}, std::array{sum}, accumulation_dtype(y.dtype()), device);
  return y.tape().record(
      "weighted_sum", result, {y},
      [y = y.gradient_only(), weights = Values(weights.begin(), weights.end()), device](const Tensor& seed) {
        Values gradient = weights;
        for (double& g : gradient) g *= seed.to_values()[0];
        y.accumulate(Tensor::from_values(y.shape(), gradient, y.dtype(), device));
      });
}

GradcheckResult gradcheck(const DifferentiableFunction& function, std::span<const Tensor> inputs,
                          const GradcheckOptions& options) {
  Problem problem(function, inputs, options.seed);
  Judge judge(options);
  const std::vector<Values> gradients = problem.gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (static_cast<std::int64_t>(gradients[i].size()) <= options.max_elements)
      check_elements(problem, i, gradients[i], options.step, judge);
    else
      check_directions(problem, i, gradients[i], options, judge);
  }
  return judge.result();
}

}  // namespace tandem
