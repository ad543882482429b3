// The one table of models that a job file can name, and the options of `model`. What a model is lies in its
// own file; adding one is a row here.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "layers/models/unet3d.h"
#include "layers/module.h"

namespace tandem {

// The keys of `model`: the name, and the options of that model beside it. Input channels and classes come
// from the data.
struct ModelOptions {
  std::string name = "unet3d";  // unet3d | unet3d_cicek | sample_cnn
  UNet3dOptions unet3d;
  // A checkpoint whose weights are the start; what is done with them is train/init_from.
  std::optional<std::string> init_from;
  std::vector<std::string> init_rename;
  bool init_strict = false;
};
Fields fields(ModelOptions& options);

// Throws Error{kConfig} for an unknown name or options that make no network.
std::unique_ptr<Module> make_model(const ModelOptions& options, std::int64_t in_channels,
                                   std::int64_t classes);

// Facts about the model that `options` name, for checks before it is built.
struct ModelTraits {
  int spatial_rank = 3;
  // Spatial sizes must be multiples of this (z, y, x), or equal to it where is_fixed_size.
  std::array<std::int64_t, 3> size_multiple{1, 1, 1};
  bool is_fixed_size = false;
  bool is_dense = true;  // one label per voxel, else one per image
};
ModelTraits model_traits(const ModelOptions& options);

std::vector<std::string> model_names();

}  // namespace tandem
