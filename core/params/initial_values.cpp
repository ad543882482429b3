// The first values of a parameter: independent of threads, padding and precision.
#include <cmath>

#include "core/base/parallel.h"
#include "core/base/rng.h"
#include "core/params/param_store.h"

namespace tandem {
namespace {

double gain_of(double negative_slope) { return std::sqrt(2.0 / (1.0 + negative_slope * negative_slope)); }

double draw(const Initializer& initializer, double fan_in, RandomStream& stream) {
  switch (initializer.kind) {
    case Initializer::Kind::kZeros:
      return 0;
    case Initializer::Kind::kOnes:
      return 1;
    case Initializer::Kind::kKaimingNormal:
      return stream.normal() * gain_of(initializer.a) / std::sqrt(fan_in);
    case Initializer::Kind::kKaimingUniform: {
      const double bound = gain_of(initializer.a) * std::sqrt(3.0 / fan_in);
      return stream.uniform(-bound, bound);
    }
    case Initializer::Kind::kConstant:
      return initializer.a;
    case Initializer::Kind::kUniform:
      return stream.uniform(-initializer.a, initializer.a);
  }
  return 0;
}

}  // namespace

// Every row k of [K, C, taps] has a stream of its own, so rows can be filled by any thread.
std::vector<double> initial_values(const Parameter& parameter, std::uint64_t seed, std::uint64_t position) {
  const std::int64_t count = parameter.shape().numel(), rows = parameter.shape().batch();
  std::vector<double> values(static_cast<std::size_t>(count));
  if (count == 0) return values;
  const std::int64_t row_size = count / rows;
  const auto fan_in = static_cast<double>(row_size);
  parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      RandomStream stream(seed, RandomPurpose::kWeights, static_cast<std::uint64_t>(row), position);
      for (std::int64_t i = 0; i < row_size; ++i)
        values[static_cast<std::size_t>(row * row_size + i)] = draw(parameter.initializer(), fan_in, stream);
    }
  });
  return values;
}

}  // namespace tandem
