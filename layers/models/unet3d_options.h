// The rules between unet3d's options. Private to layers/models.
#pragma once

#include "layers/models/unet3d.h"

namespace tandem {

// Throws Error{kConfig} with the first rule that `options` break.
void check_options(const UNet3dOptions& options);

}  // namespace tandem
