// The rows of `tandem summary` hold every parameter of every model once.
#include "train/model_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "core/params/param_store.h"
#include "layers/models/model_table.h"

namespace tandem {
namespace {

struct Counted {
  ModelSummary summary;
  std::int64_t in_rows = 0, in_model = 0;
};

Counted count(const ModelOptions& options) {
  const ModelTraits traits = model_traits(options);
  std::vector<std::int64_t> shape{1, 1};
  for (int axis = 3 - traits.spatial_rank; axis < 3; ++axis) {
    const std::int64_t size = traits.size_multiple[static_cast<std::size_t>(axis)];
    shape.push_back(traits.is_fixed_size ? size : std::max<std::int64_t>(2 * size, 4));
  }
  const std::unique_ptr<Module> model = make_model(options, 1, 3);
  const auto parameters = model->parameters();
  const Context context{.compute = DType::kF32};
  const ParamStore store(parameters, context, Precision{.compute = DType::kF32});
  Counted result{.summary = summarise_model(*model, context, Shape(shape)),
                 .in_model = store.parameter_count()};
  for (const SummaryRow& row : result.summary.rows) result.in_rows += row.parameters;
  return result;
}

const SummaryRow* find(const ModelSummary& summary, const std::string& module) {
  for (const SummaryRow& row : summary.rows)
    if (row.module == module) return &row;
  return nullptr;
}

TEST(ModelSummary, RowsAddUpToTheParametersOfEveryModel) {
  for (const std::string& name : model_names()) {
    const Counted counted = count({.name = name});
    EXPECT_EQ(counted.in_rows, counted.in_model) << name;
    EXPECT_GT(counted.in_model, 0) << name;
  }
}

TEST(ModelSummary, CoarseHeadsAreInTrainingOnlyOrNotUsed) {
  ModelOptions options{.unet3d = {.features = {2, 4, 8}}};
  for (const bool deep : {false, true}) {
    options.unet3d.deep_supervision = deep;
    const Counted counted = count(options);
    EXPECT_EQ(counted.in_rows, counted.in_model);
    const SummaryRow* head = find(counted.summary, "head1");
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->training_only, deep);
    EXPECT_EQ(head->op, deep ? "conv" : "not used");
    EXPECT_EQ(head->parameters, 3 * 4 + 3);
    ASSERT_NE(find(counted.summary, "head0"), nullptr);
    EXPECT_FALSE(find(counted.summary, "head0")->training_only);
  }
}

}  // namespace
}  // namespace tandem
