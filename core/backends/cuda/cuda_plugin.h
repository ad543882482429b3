// The CUDA plug-in as the program sees it: looked for, opened and asked once per process. Needs no CUDA
// header and no CUDA library. Not here: what a device computes (device_api.h), what the plug-in does
// (plugin/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/cuda/device_api.h"

namespace tandem::cuda {

// What one device is, as the plug-in describes it.
struct DeviceDescription {
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  std::int64_t memory_bytes = 0;   // all of it, used or not
  std::int64_t multiprocessors = 0;
  std::string driver,
      runtime;  // the CUDA versions that the driver knows and that the plug-in was built for: "13.0"
  std::string cudnn, cublaslt;  // at run time: "9.19.0"
};

// What was found.
struct Plugin {
  std::string file;    // the plug-in that was opened or refused; empty: none was found
  std::string reason;  // why no device is used, one line: "no CUDA device: ..."; empty: devices are used
  std::vector<DeviceDescription> devices;  // all that were described, also where `reason` refuses them

  bool usable() const { return reason.empty(); }
};

// Opens libtandem_cuda.so: of $TANDEM_PLUGIN_PATH (the file or its folder), else beside the program (its real
// path), else where the loader looks. The first that exists is the one; a plug-in of another build, one that
// cannot be loaded or finds no device, and one with a cuDNN older than 9.15 are refused. The first call takes
// a few tenths of a second where there is a plug-in, later ones return the same object. Never throws for what
// a plug-in is or answers; may be called from any thread.
const Plugin& plugin();

struct DestroyDevice {
  void operator()(DeviceApi* api) const;
};
using DevicePointer = std::unique_ptr<DeviceApi, DestroyDevice>;

// The interface of plugin().devices[index], with a queue of its own. Throws Error{kDevice} where there is no
// such device or it cannot be opened.
DevicePointer open_device(std::int64_t index);

}  // namespace tandem::cuda
