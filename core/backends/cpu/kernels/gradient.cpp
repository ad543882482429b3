// GradientJob: full tiles over the merged (tap, channel) axis, then one tile for the rest.
#include "core/backends/cpu/kernels/row_kernel.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

using Tile = void (*)(const GradientJob&, std::int64_t);

template <int kN, std::size_t... kM>
constexpr std::array<Tile, sizeof...(kM) + 1> tiles(std::index_sequence<kM...>) {
  return {nullptr, &gradient_tile<static_cast<int>(kM) + 1, kN>...};
}

template <int kN, int kRows>
void run(const GradientJob& job) {
  static constexpr auto kTiles = tiles<kN>(std::make_index_sequence<kRows>());
  std::int64_t first = 0;
  for (; first + kRows <= job.m_count; first += kRows) gradient_tile<kRows, kN>(job, first);
  if (first < job.m_count) kTiles[static_cast<std::size_t>(job.m_count - first)](job, first);
}

}  // namespace

void run_gradient(const GradientJob& job) {
  if (job.width == Vec::kLanes)
    run<1, kTallRows>(job);
  else
    run<2, kWideRows>(job);
}

}  // namespace tandem::TD_ISA_NAMESPACE
