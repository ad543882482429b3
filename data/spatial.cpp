// Drawing of spatial maps, and the pass that reads through one.
#include "data/spatial.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/rng.h"

namespace tandem {
namespace {

using Matrix = std::array<double, 9>;
using Point = std::array<double, 3>;  // z, y, x

constexpr double kAnisotropy = 3;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result{};
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t k = 0; k < 3; ++k) result[3 * r + c] += a[3 * r + k] * b[3 * k + c];
  return result;
}

Matrix rotation(std::size_t axis, double angle) {
  const std::size_t a = (axis + 1) % 3, b = (axis + 2) % 3;
  Matrix result{};
  result[4 * axis] = 1;
  result[4 * a] = result[4 * b] = std::cos(angle);
  result[3 * a + b] = -std::sin(angle);
  result[3 * b + a] = std::sin(angle);
  return result;
}

void draw_shifts(const std::array<double, 2>& elastic, RandomStream& stream, SpatialMap& map) {
  for (std::size_t a = 0; a < 3; ++a)
    map.grid[a] = 2 + static_cast<std::int64_t>(static_cast<double>(map.size[a] - 1) / elastic[1]);
  map.shifts.resize(as_size(3 * voxel_count(map.grid)));
  for (float& shift : map.shifts) shift = static_cast<float>(elastic[0] * stream.normal());
  if (is_flat_patch(map.size))
    for (std::size_t i = 0; i < map.shifts.size(); i += 3) map.shifts[i] = 0;
}

// Place of patch voxel `i` among control points: the lower one and the part of the way to the next.
struct Control {
  std::int64_t index = 0;
  float part = 0;
};
std::vector<Control> control_places(std::int64_t size, std::int64_t grid) {
  std::vector<Control> places(as_size(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const double at = size > 1 ? static_cast<double>(i * (grid - 1)) / static_cast<double>(size - 1) : 0;
    const auto index = std::min<std::int64_t>(static_cast<std::int64_t>(at), grid - 2);
    places[as_size(i)] = {index, static_cast<float>(at - static_cast<double>(index))};
  }
  return places;
}

// Shifts along one row of the patch, [size x, 3].
class RowShifts {
 public:
  explicit RowShifts(const SpatialMap& map) : map_(map) {
    if (map.shifts.empty()) return;
    for (std::size_t a = 0; a < 3; ++a) places_[a] = control_places(map.size[a], map.grid[a]);
    control_.resize(as_size(3 * map.grid[2]));
    row_.resize(as_size(3 * map.size[2]));
  }
  // Null where there are none.
  const float* row(std::int64_t z, std::int64_t y) {
    if (map_.shifts.empty()) return nullptr;
    const Control &cz = places_[0][as_size(z)], &cy = places_[1][as_size(y)];
    const std::int64_t pitch = 3 * map_.grid[2];
    const float* low = map_.shifts.data() + (cz.index * map_.grid[1] + cy.index) * pitch;
    const float* high = low + map_.grid[1] * pitch;
    for (std::int64_t i = 0; i < pitch; ++i)
      control_[as_size(i)] = (1 - cz.part) * ((1 - cy.part) * low[i] + cy.part * low[pitch + i]) +
                             cz.part * ((1 - cy.part) * high[i] + cy.part * high[pitch + i]);
    for (std::int64_t x = 0; x < map_.size[2]; ++x) {
      const Control& cx = places_[2][as_size(x)];
      const float* at = control_.data() + 3 * cx.index;
      for (std::int64_t k = 0; k < 3; ++k)
        row_[as_size(3 * x + k)] = (1 - cx.part) * at[k] + cx.part * at[3 + k];
    }
    return row_.data();
  }

 private:
  const SpatialMap& map_;
  std::array<std::vector<Control>, 3> places_;
  std::vector<float> control_, row_;
};

// The eight voxels of `source` around a point of it, as row indices, and their weights.
struct Neighbours {
  std::array<std::int64_t, 8> index;
  std::array<float, 8> weight;
};
Neighbours neighbours_of(const std::array<float, 3>& at, const Index3& size) {
  std::array<std::int64_t, 3> low, high;
  std::array<float, 3> part;
  for (std::size_t a = 0; a < 3; ++a) {
    const float limited = std::clamp(at[a], 0.0f, static_cast<float>(size[a] - 1));
    low[a] = static_cast<std::int64_t>(limited);  // not negative: truncation is floor
    high[a] = std::min(low[a] + 1, size[a] - 1);
    part[a] = limited - static_cast<float>(low[a]);
  }
  Neighbours result;
  for (std::size_t k = 0; k < 8; ++k) {
    const bool z = (k & 4) != 0, y = (k & 2) != 0, x = (k & 1) != 0;
    result.index[k] =
        ((z ? high[0] : low[0]) * size[1] + (y ? high[1] : low[1])) * size[2] + (x ? high[2] : low[2]);
    result.weight[k] =
        (z ? part[0] : 1 - part[0]) * (y ? part[1] : 1 - part[1]) * (x ? part[2] : 1 - part[2]);
  }
  return result;
}

std::int32_t vote(const Neighbours& around, std::span<const std::int32_t> label) {
  std::array<std::int32_t, 8> found;
  for (std::size_t k = 0; k < 8; ++k) found[k] = label[as_size(around.index[k])];
  if (std::all_of(found.begin(), found.end(), [&](std::int32_t c) { return c == found[0]; })) return found[0];
  std::int32_t winner = found[0];
  float best = -1;
  for (std::size_t i = 0; i < 8; ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum += found[k] == found[i] ? around.weight[k] : 0;
    if (sum > best || (sum == best && found[i] < winner)) best = sum, winner = found[i];
  }
  return winner;
}

}  // namespace

bool is_flat_patch(const Index3& size) {
  const double largest = static_cast<double>(*std::max_element(size.begin(), size.end()));
  return largest > kAnisotropy * static_cast<double>(size[0]);
}

std::optional<SpatialMap> draw_spatial(const AugmentOptions& options, const Index3& size, const Draw& draw) {
  RandomStream stream(draw.seed, RandomPurpose::kSpatial, draw.epoch, draw.sample);
  const bool flat = is_flat_patch(size);
  SpatialMap map{.size = size};
  bool any = false;
  if (options.rotate_deg > 0 && stream.uniform() < options.probability.rotate) {
    const double most = options.rotate_deg * std::numbers::pi / 180;
    for (std::size_t axis = 0; axis < (flat ? 1u : 3u); ++axis)
      map.matrix = product(map.matrix, rotation(axis, stream.uniform(-most, most)));
    any = true;
  }
  if (options.scale && stream.uniform() < options.probability.scale) {
    const double factor = stream.uniform((*options.scale)[0], (*options.scale)[1]);
    for (std::size_t i = flat ? 3 : 0; i < 9; ++i) map.matrix[i] *= factor;
    any = true;
  }
  RandomStream elastic(draw.seed, RandomPurpose::kElastic, draw.epoch, draw.sample);
  if (options.elastic && elastic.uniform() < options.probability.elastic) {
    draw_shifts(*options.elastic, elastic, map);
    any = true;
  }
  return any ? std::optional(map) : std::nullopt;
}

SpatialBox spatial_box(const SpatialMap& map) {
  Point shift{};
  for (std::size_t i = 0; i < map.shifts.size(); ++i)
    shift[i % 3] = std::max(shift[i % 3], std::abs(static_cast<double>(map.shifts[i])));
  SpatialBox box;
  for (std::size_t a = 0; a < 3; ++a) {
    double reach = shift[a];
    for (std::size_t b = 0; b < 3; ++b)
      reach += std::abs(map.matrix[3 * a + b]) * static_cast<double>(map.size[b] - 1) / 2;
    const double centre = static_cast<double>(map.size[a] - 1) / 2;
    box.begin[a] = static_cast<std::int64_t>(std::floor(centre - reach));
    box.size[a] = static_cast<std::int64_t>(std::ceil(centre + reach)) - box.begin[a] + 1;
  }
  return box;
}

void resample_patch(const SpatialMap& map, const SpatialBox& box, const PatchView& source,
                    const PatchView& patch) {
  RowShifts shifts(map);
  const Index3& size = map.size;
  const std::int64_t channels = patch.channels;
  std::array<float, 3> step, first;
  for (std::size_t a = 0; a < 3; ++a) step[a] = static_cast<float>(map.matrix[3 * a + 2]);
  std::int64_t row = 0;
  for (std::int64_t z = 0; z < size[0]; ++z)
    for (std::int64_t y = 0; y < size[1]; ++y) {
      const float* shift = shifts.row(z, y);
      const Point from{static_cast<double>(z) - static_cast<double>(size[0] - 1) / 2,
                       static_cast<double>(y) - static_cast<double>(size[1] - 1) / 2,
                       -static_cast<double>(size[2] - 1) / 2};
      for (std::size_t a = 0; a < 3; ++a)
        first[a] = static_cast<float>(static_cast<double>(size[a] - 1) / 2 -
                                      static_cast<double>(box.begin[a]) + map.matrix[3 * a] * from[0] +
                                      map.matrix[3 * a + 1] * from[1] + map.matrix[3 * a + 2] * from[2]);
      for (std::int64_t x = 0; x < size[2]; ++x, ++row) {
        std::array<float, 3> at;
        for (std::size_t a = 0; a < 3; ++a)
          at[a] =
              first[a] + static_cast<float>(x) * step[a] + (shift == nullptr ? 0 : shift[as_size(3 * x) + a]);
        const Neighbours around = neighbours_of(at, box.size);
        for (std::int64_t c = 0; c < channels; ++c) {
          float sum = 0;
          for (std::size_t k = 0; k < 8; ++k)
            sum += around.weight[k] * source.image[as_size(around.index[k] * channels + c)];
          patch.image[as_size(row * channels + c)] = sum;
        }
        if (!patch.label.empty()) patch.label[as_size(row)] = vote(around, source.label);
        if (patch.weight.empty()) continue;
        const auto nearest = std::max_element(around.weight.begin(), around.weight.end());
        patch.weight[as_size(row)] =
            source.weight[as_size(around.index[as_size(nearest - around.weight.begin())])];
      }
    }
}

}  // namespace tandem
