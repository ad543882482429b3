// RowJob: tiles over the voxels of the row.
#include "core/backends/cpu/kernels/row_kernel.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

using Tile = void (*)(const RowJob&, std::int64_t);

// tiles<kN>()[m] covers m voxels.
template <int kN, std::size_t... kM>
constexpr std::array<Tile, sizeof...(kM) + 1> tiles(std::index_sequence<kM...>) {
  return {nullptr, &row_tile<static_cast<int>(kM) + 1, kN>...};
}

template <int kN, int kRows>
void run(const RowJob& job) {
  static constexpr auto kTiles = tiles<kN>(std::make_index_sequence<kRows>());
  // Tiles of even height: one of a few rows would wait for its few sums.
  const std::int64_t count = (job.voxels + kRows - 1) / kRows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = job.voxels * i / count, end = job.voxels * (i + 1) / count;
    kTiles[static_cast<std::size_t>(end - first)](job, first);
  }
}

}  // namespace

void run_row(const RowJob& job) {
  if (job.width == Vec::kLanes)
    run<1, kTallRows>(job);
  else
    run<2, kWideRows>(job);
}

}  // namespace tandem::TD_ISA_NAMESPACE
