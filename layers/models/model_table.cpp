// The rows of the model table.
#include "layers/models/model_table.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/nearest.h"
#include "layers/models/sample_cnn.h"
#include "layers/models/unet3d_cicek.h"

namespace tandem {
namespace {

struct ModelRow {
  std::string_view name;
  std::unique_ptr<Module> (*make)(const ModelOptions&, std::int64_t in_channels, std::int64_t classes);
  ModelTraits (*traits)(const ModelOptions&);
};

constexpr ModelRow kModels[] = {
    {"unet3d",
     [](const ModelOptions& o, std::int64_t in, std::int64_t classes) -> std::unique_ptr<Module> {
       return std::make_unique<UNet3d>(o.unet3d, in, classes);
     },
     [](const ModelOptions& o) { return ModelTraits{.size_multiple = o.unet3d.size_multiple()}; }},
    {"unet3d_cicek",
     [](const ModelOptions&, std::int64_t in, std::int64_t classes) -> std::unique_ptr<Module> {
       return std::make_unique<UNet3dCicek>(in, classes, UNet3dCicek::Border::kZeros);
     },
     [](const ModelOptions&) { return ModelTraits{}; }},
    {"sample_cnn",
     [](const ModelOptions&, std::int64_t in, std::int64_t classes) -> std::unique_ptr<Module> {
       return std::make_unique<SampleCnn>(in, classes);
     },
     [](const ModelOptions&) {
       return ModelTraits{
           .spatial_rank = 2, .size_multiple = {1, 28, 28}, .is_fixed_size = true, .is_dense = false};
     }},
};

const ModelRow& row_of(const std::string& name) {
  const auto row = std::ranges::find(kModels, name, &ModelRow::name);
  if (row != std::end(kModels)) return *row;
  const std::vector<std::string> names = model_names();
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  const std::string near = nearest_name(name, names);
  throw Error(ErrorKind::kConfig,
              fmt::format("[model] unknown model.name: got '{}', expected one of {}", name, all),
              near.empty() ? "" : fmt::format("Did you mean '{}'?", near));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelRow& row : kModels) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Module> make_model(const ModelOptions& options, std::int64_t in_channels,
                                   std::int64_t classes) {
  return row_of(options.name).make(options, in_channels, classes);
}

ModelTraits model_traits(const ModelOptions& options) { return row_of(options.name).traits(options); }

Fields fields(ModelOptions& o) {
  Fields description;
  description.choice("name", o.name, model_names(),
                     "The network; sample_cnn is a classifier, which no task of a job trains yet");
  describe(description, o.unet3d);
  std::vector<std::string> unet3d_keys;
  for (const Field& field : description.all())
    if (field.name != "name") unet3d_keys.push_back(field.name);
  description.only_for(std::move(unet3d_keys), "name", {"unet3d"});
  description
      .path("init_from", o.init_from,
            "Checkpoint, or run folder for its newest one, whose weights a new run starts with; null: none")
      .texts("init_rename", o.init_rename,
             "How names of that checkpoint become names here, as \"encoder.*=enc*\"; the first that fits")
      .flag("init_strict", o.init_strict, "Fail unless every tensor of both is used");
  return description;
}

}  // namespace tandem
