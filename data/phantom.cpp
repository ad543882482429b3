// The phantom: body, spine and ten organs painted as ellipsoids, then noise.
#include "data/phantom.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "data/case_file.h"

namespace tandem {
namespace {

constexpr double kSpacingMm = 3;
constexpr double kNoiseHu = 15;
constexpr double kAirHu = -1000, kFatHu = -90;

// Centre and radii as fractions: x of the half width from the middle, y and z of the whole size.
struct Organ {
  std::int32_t left = 0, right = 0;
  double x, y, z, rx, ry, rz;
  double hu;
};
constexpr Organ kOrgans[] = {
    {77, 78, 0.46, 0.52, 0.38, 0.20, 0.13, 0.20, 420},  // hip
    {80, 81, 0.45, 0.22, 0.30, 0.30, 0.11, 0.22, 60},   // gluteus maximus
    {82, 83, 0.74, 0.45, 0.56, 0.13, 0.15, 0.17, 150},  // gluteus medius
    {88, 89, 0.28, 0.70, 0.60, 0.14, 0.09, 0.27, 230},  // iliopsoas
    {86, 87, 0.20, 0.24, 0.76, 0.13, 0.09, 0.20, 110},  // autochthon
};

struct Ellipsoid {
  std::array<double, 3> centre{}, radius{};  // z, y, x in voxels
  double hu = 0;
  std::int32_t label = 0;

  // < 1 inside.
  double distance2(const Index3& at) const {
    double sum = 0;
    for (std::size_t a = 0; a < 3; ++a) {
      const double d = (static_cast<double>(at[a]) - centre[a]) / radius[a];
      sum += d * d;
    }
    return sum;
  }
};

Ellipsoid scaled(const Index3& shape, double x, const Organ& organ, double size) {
  const auto n = [&](std::size_t a) { return static_cast<double>(shape[a]); };
  const double half = n(2) / 2;
  return {{organ.z * n(0) - 0.5, organ.y * n(1) - 0.5, half + x * half - 0.5},
          {organ.rz * n(0) * size, organ.ry * n(1) * size, organ.rx * half * size},
          organ.hu,
          x < 0 ? organ.left : organ.right};
}

std::vector<Ellipsoid> place_organs(const Index3& shape, std::uint64_t seed) {
  std::vector<Ellipsoid> list;
  list.push_back(scaled(shape, 0, {0, 0, 0, 0.5, 0.5, 0.96, 0.48, 0.60, kFatHu}, 1));  // body
  list.push_back(
      scaled(shape, 0, {0, 0, 0, 0.36, 0.5, 0.14, 0.10, 0.60, 420}, 1));  // spine: bright but background
  std::uint64_t number = 0;
  for (const Organ& organ : kOrgans)
    for (const double side : {-1.0, 1.0}) {
      RandomStream stream(seed, RandomPurpose::kSynthetic, 0, number++);
      Organ moved = organ;
      moved.y += stream.uniform(-0.012, 0.012);
      moved.z += stream.uniform(-0.012, 0.012);
      moved.hu += stream.uniform(-6, 6);
      list.push_back(
          scaled(shape, side * (organ.x + stream.uniform(-0.012, 0.012)), moved, stream.uniform(0.95, 1.05)));
    }
  return list;
}

}  // namespace

Phantom make_phantom(const Index3& shape, std::uint64_t seed) {
  for (const std::int64_t size : shape)
    if (size < 8 || size > 2048)
      fail(ErrorKind::kUsage, "[phantom] size z, y, x: got {}, expected 8..2048 along each axis",
           to_string(shape));
  Affine affine = affine_of_spacing({kSpacingMm, kSpacingMm, kSpacingMm});
  const Geometry geometry(SourceGrid{shape, affine, nifti_space_of(affine)});
  Phantom phantom{{geometry, 1, {}}, {geometry, {}}};
  const auto count = static_cast<std::size_t>(voxel_count(shape));
  phantom.image.values.reserve(count);
  phantom.labels.values.reserve(count);
  const std::vector<Ellipsoid> organs = place_organs(shape, seed);
  RandomStream noise(seed, RandomPurpose::kSynthetic, 1, 0);
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x) {
        double hu = kAirHu;
        std::int32_t label = 0;
        for (const Ellipsoid& organ : organs)
          if (organ.distance2({z, y, x}) < 1) hu = organ.hu, label = organ.label;
        phantom.image.values.push_back(static_cast<float>(std::round(hu + kNoiseHu * noise.normal())));
        phantom.labels.values.push_back(label);
      }
  return phantom;
}

void write_phantom_case(const std::filesystem::path& path, const Index3& shape, std::uint64_t seed) {
  const Phantom phantom = make_phantom(shape, seed);
  write_case(path, fmt::format("phantom-{}", seed), phantom.image, &phantom.labels, {"CT (phantom)"});
}

}  // namespace tandem
