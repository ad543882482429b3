// Geometry of volumes: signed permutations of axes, orientation by the nearest rotation, and the one gather
// that canonicalises, flips, crops and restores.
#include "data/volume.h"

#include <fmt/core.h>

#include <Eigen/Core>
#include <Eigen/SVD>
#include <cmath>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr int affine_column(int array_axis) { return 2 - array_axis; }

Eigen::Matrix3d axis_directions(const Affine& affine) {
  Eigen::Matrix3d directions;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) directions(r, c) = affine[static_cast<std::size_t>(4 * r + c)];
  for (int c = 0; c < 3; ++c) {
    const double length = directions.col(c).norm();
    if (length > 0) directions.col(c) /= length;
  }
  return directions;
}

// For each affine column (x, y, z of the array): the world axis it runs along and its direction. The nearest
// rotation (polar decomposition) decides, largest entries first, as nibabel's io_orientation.
struct WorldAxis {
  int axis = 0;
  int sign = 1;
};
std::array<WorldAxis, 3> world_axes(const Affine& affine) {
  const Eigen::JacobiSVD<Eigen::Matrix3d> svd(axis_directions(affine),
                                              Eigen::ComputeFullU | Eigen::ComputeFullV);
  const Eigen::Matrix3d rotation = svd.matrixU() * svd.matrixV().transpose();
  Eigen::Matrix3d left = rotation.cwiseAbs();
  std::array<WorldAxis, 3> result;
  for (int k = 0; k < 3; ++k) {
    Eigen::Index world = 0, column = 0;
    left.maxCoeff(&world, &column);
    result[static_cast<std::size_t>(column)] = {static_cast<int>(world),
                                                rotation(world, column) < 0 ? -1 : 1};
    left.row(world).setConstant(-1);
    left.col(column).setConstant(-1);
  }
  return result;
}

// Index arithmetic of a gather: element of `to` at (z, y, x) -> index in `from`.
struct GridMap {
  std::array<int, 3> axis{};                     // from-axis that each to-axis moves along
  std::array<std::int64_t, 3> sign{}, offset{};  // from index[axis] = offset + sign * index
};

GridMap map_between(const Geometry& from, const Geometry& to) {
  check_internal(from.source().shape == to.source().shape && from.source().affine == to.source().affine,
                 "a volume was asked for on the grid of another file");
  GridMap map;
  for (std::size_t t = 0; t < 3; ++t) {
    const AxisMap& there = to.axes()[t];
    for (std::size_t f = 0; f < 3; ++f) {
      const AxisMap& here = from.axes()[f];
      if (here.axis != there.axis) continue;
      map.axis[t] = static_cast<int>(f);
      map.sign[t] = here.sign * there.sign;
      map.offset[t] = here.sign * (there.offset - here.offset);
    }
  }
  return map;
}

template <class T>
std::vector<T> gather(const std::vector<T>& values, const Geometry& from, const Geometry& to, T fill) {
  const GridMap map = map_between(from, to);
  const Index3& size = from.shape();
  const Index3 pitch{size[1] * size[2], size[2], 1};
  // Along each to-axis: the offset into `from`, or -1 outside it.
  std::array<std::vector<std::int64_t>, 3> steps;
  for (std::size_t t = 0; t < 3; ++t) {
    const auto f = static_cast<std::size_t>(map.axis[t]);
    for (std::int64_t i = 0; i < to.shape()[t]; ++i) {
      const std::int64_t index = map.offset[t] + map.sign[t] * i;
      steps[t].push_back(index >= 0 && index < size[f] ? index * pitch[f] : -1);
    }
  }
  const auto plane = static_cast<std::size_t>(voxel_count(size));
  const std::size_t channels = plane == 0 ? 0 : values.size() / plane;
  std::vector<T> result;
  result.reserve(channels * static_cast<std::size_t>(voxel_count(to.shape())));
  for (std::size_t c = 0; c < channels; ++c)
    for (const std::int64_t z : steps[0])
      for (const std::int64_t y : steps[1])
        for (const std::int64_t x : steps[2])
          result.push_back(z < 0 || y < 0 || x < 0 ? fill
                                                   : values[c * plane + static_cast<std::size_t>(z + y + x)]);
  return result;
}

}  // namespace

std::string to_string(const Index3& index) {
  return fmt::format("[{}, {}, {}]", index[0], index[1], index[2]);
}

Affine affine_of_spacing(const std::array<double, 3>& spacing_mm) {
  return {spacing_mm[2], 0, 0, 0, 0, spacing_mm[1], 0, 0, 0, 0, spacing_mm[0], 0, 0, 0, 0, 1};
}

NiftiSpace nifti_space_of(const Affine& affine) {
  NiftiSpace space;
  space.sform_code = 1;
  for (std::size_t c = 0; c < 3; ++c)
    space.pixdim[c + 1] = static_cast<float>(std::hypot(affine[c], affine[4 + c], affine[8 + c]));
  for (std::size_t i = 0; i < 12; ++i) space.srow[i] = static_cast<float>(affine[i]);
  return space;
}

Geometry::Geometry(SourceGrid source)
    : source_(std::move(source)), shape_(source_.shape), axes_{AxisMap{0}, AxisMap{1}, AxisMap{2}} {}

Geometry::Geometry(SourceGrid source, const Index3& shape, const std::array<AxisMap, 3>& axes,
                   const std::string& where)
    : source_(std::move(source)), shape_(shape), axes_(axes) {
  unsigned seen = 0;
  for (const AxisMap& map : axes_) {
    const bool valid = map.axis >= 0 && map.axis < 3 && (map.sign == 1 || map.sign == -1);
    if (valid) seen |= 1u << map.axis;
  }
  if (seen != 7u)
    fail(ErrorKind::kData,
         "[volume] {}: axis map: got axes {} {} {} with signs {} {} {}, expected each of 0, 1, 2 once and "
         "signs 1 or -1",
         where, axes[0].axis, axes[1].axis, axes[2].axis, axes[0].sign, axes[1].sign, axes[2].sign);
}

Affine Geometry::affine() const {
  Eigen::Matrix4d to_source = Eigen::Matrix4d::Zero();
  to_source(3, 3) = 1;
  for (int a = 0; a < 3; ++a) {
    const AxisMap& map = axes_[static_cast<std::size_t>(a)];
    to_source(affine_column(map.axis), affine_column(a)) = map.sign;
    to_source(affine_column(map.axis), 3) = static_cast<double>(map.offset);
  }
  using RowMajor = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
  Affine result;
  Eigen::Map<RowMajor>(result.data()) = Eigen::Map<const RowMajor>(source_.affine.data()) * to_source;
  return result;
}

std::array<double, 3> Geometry::spacing_mm() const {
  const Affine m = affine();
  std::array<double, 3> spacing;
  for (int a = 0; a < 3; ++a) {
    const auto c = static_cast<std::size_t>(affine_column(a));
    spacing[static_cast<std::size_t>(a)] = std::hypot(m[c], m[4 + c], m[8 + c]);
  }
  return spacing;
}

std::string Geometry::orientation() const {
  constexpr const char* kPositive = "RAS";
  constexpr const char* kNegative = "LPI";
  std::string text;
  for (const WorldAxis& world : world_axes(affine()))
    text += (world.sign > 0 ? kPositive : kNegative)[world.axis];
  return text;
}

double Geometry::shear() const {
  const Eigen::Matrix3d directions = axis_directions(affine());
  Eigen::Matrix3d gram = (directions.transpose() * directions).cwiseAbs();
  gram.diagonal().setZero();
  return gram.maxCoeff();
}

bool Geometry::on_source_grid() const {
  return shape_ == source_.shape && axes_ == std::array<AxisMap, 3>{AxisMap{0}, AxisMap{1}, AxisMap{2}};
}

Geometry Geometry::canonical() const {
  const std::array<WorldAxis, 3> world = world_axes(affine());
  Geometry result = *this;
  for (std::size_t column = 0; column < 3; ++column) {
    const auto from = static_cast<std::size_t>(affine_column(static_cast<int>(column)));
    const auto to = static_cast<std::size_t>(affine_column(world[column].axis));
    result.axes_[to] = axes_[from];
    result.shape_[to] = shape_[from];
  }
  Geometry mirrored = result;
  for (std::size_t column = 0; column < 3; ++column)
    if (world[column].sign < 0) mirrored = mirrored.flipped(affine_column(world[column].axis));
  return mirrored;
}

Geometry Geometry::flipped(int axis) const {
  check_internal(axis >= 0 && axis < 3, "flipped: axis outside 0..2");
  Geometry result = *this;
  AxisMap& map = result.axes_[static_cast<std::size_t>(axis)];
  map.offset += map.sign * (shape_[static_cast<std::size_t>(axis)] - 1);
  map.sign = -map.sign;
  return result;
}

Geometry Geometry::cropped(const Index3& begin, const Index3& shape) const {
  Geometry result = *this;
  for (std::size_t a = 0; a < 3; ++a) {
    if (begin[a] < 0 || shape[a] < 1 || begin[a] + shape[a] > shape_[a])
      fail(ErrorKind::kUsage, "[volume] region along {}: got {}:{}, expected a non-empty range within 0:{}",
           "zyx"[a], begin[a], begin[a] + shape[a], shape_[a]);
    result.axes_[a].offset += result.axes_[a].sign * begin[a];
  }
  result.shape_ = shape;
  return result;
}

Volume on_grid(const Volume& volume, const Geometry& grid, float fill) {
  return {grid, volume.channels, gather(volume.values, volume.geometry, grid, fill)};
}

LabelVolume on_grid(const LabelVolume& volume, const Geometry& grid, std::int32_t fill) {
  return {grid, gather(volume.values, volume.geometry, grid, fill)};
}

}  // namespace tandem
