// The whole table.
#include "tests/ops/op_table.h"

namespace tandem::testing {

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table = [] {
    std::vector<OpRow> all;
    for (const auto& part : {conv_rows(), elementwise_rows(), activation_rows(), norm_rows(), pool_rows(),
                             resize_rows(), loss_rows(), segmentation_loss_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

}  // namespace tandem::testing
