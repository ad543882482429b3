// The transform of a line, and the three passes over the axes.
#include "data/distance_transform.h"

#include <limits>

#include "core/base/error.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// value(x) = min over q of value(q) + (spacing (x - q))^2 along one line.
class LineTransform {
 public:
  LineTransform(std::int64_t size, double spacing_mm)
      : square_(spacing_mm * spacing_mm), envelope_(static_cast<std::size_t>(size)) {}

  void run(std::span<double> line) {
    const std::size_t count = build(line);
    if (count == 0) return;  // all infinite
    std::size_t k = 0;
    for (std::size_t x = 0; x < line.size(); ++x) {
      const auto place = static_cast<double>(x);
      while (k + 1 < count && envelope_[k + 1].from <= place) ++k;
      const double steps = place - envelope_[k].apex;
      line[x] = envelope_[k].height + square_ * steps * steps;
    }
  }

 private:
  struct Parabola {
    double apex = 0, height = 0;
    double from = 0;  // where it becomes the lowest
  };

  std::size_t build(std::span<const double> line) {
    std::size_t count = 0;
    for (std::size_t q = 0; q < line.size(); ++q) {
      if (line[q] == kInfinity) continue;
      Parabola next{static_cast<double>(q), line[q], -kInfinity};
      while (count > 0) {
        const Parabola& last = envelope_[count - 1];
        const double steps = next.apex - last.apex;
        next.from = (next.height - last.height) / (2 * square_ * steps) + (next.apex + last.apex) / 2;
        if (next.from > last.from) break;
        --count;
      }
      if (count == 0) next.from = -kInfinity;
      envelope_[count++] = next;
    }
    return count;
  }

  double square_;
  std::vector<Parabola> envelope_;
};

void transform_axis(std::vector<double>& values, const Index3& shape, std::size_t axis, double spacing_mm) {
  const std::int64_t size = shape[axis];
  const std::int64_t stride = axis == 0 ? shape[1] * shape[2] : axis == 1 ? shape[2] : 1;
  parallel_for(voxel_count(shape) / size, 64, [&](std::int64_t begin, std::int64_t end) {
    LineTransform transform(size, spacing_mm);
    std::vector<double> line(static_cast<std::size_t>(size));
    for (std::int64_t i = begin; i < end; ++i) {
      double* const first = values.data() + i / stride * stride * size + i % stride;
      for (std::int64_t k = 0; k < size; ++k) line[static_cast<std::size_t>(k)] = first[k * stride];
      transform.run(line);
      for (std::int64_t k = 0; k < size; ++k) first[k * stride] = line[static_cast<std::size_t>(k)];
    }
  });
}

}  // namespace

std::vector<double> squared_distances_mm2(std::span<const std::uint8_t> features, const Index3& shape,
                                          const std::array<double, 3>& spacing_mm) {
  check_internal(features.size() == static_cast<std::size_t>(voxel_count(shape)),
                 "squared_distances_mm2: a mask of another size");
  std::vector<double> values(features.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = features[i] != 0 ? 0 : kInfinity;
  if (values.empty()) return values;
  for (std::size_t axis = 3; axis-- > 0;) transform_axis(values, shape, axis, spacing_mm[axis]);
  return values;
}

}  // namespace tandem
