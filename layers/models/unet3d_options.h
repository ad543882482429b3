// What unet3d's options mean: activation words and the rules between fields. Private to layers/models.
#pragma once

#include <optional>
#include <string_view>

#include "core/backends/kernel_args.h"
#include "layers/models/unet3d.h"

namespace tandem {

struct ParsedActivation {
  Activation kind = Activation::kNone;
  double slope = 0;
};
// relu, leaky_relu (0.01) or leaky_relu:SLOPE with 0 < SLOPE < 1; nothing for other words.
std::optional<ParsedActivation> parse_activation(std::string_view text);

// Throws Error{kConfig} with the first rule that `options` break.
void check_options(const UNet3dOptions& options);

}  // namespace tandem
