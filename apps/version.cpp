// `tandem version`: what was built, with what.
#include "apps/version.h"

#include <H5public.h>
#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include <Eigen/Core>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/commands.h"

namespace tandem {

std::vector<std::pair<std::string, std::string>> library_versions() {
  const dnnl_version_t* const onednn = dnnl_version();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {{"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
          {"HDF5", fmt::format("{}.{}.{}", major, minor, release)},
          {"Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
}

std::string version_text() {
  return fmt::format("tandem {} ({} build, g++ {})", TANDEM_VERSION, TANDEM_BUILD_TYPE, __VERSION__);
}

Action version_command(Arguments& arguments) {
  const auto json = std::make_shared<bool>(false);
  arguments.flag("--json", *json, "Print JSON");
  return [json] {
    if (*json) {
      nlohmann::ordered_json out{
          {"version", TANDEM_VERSION}, {"build_type", TANDEM_BUILD_TYPE}, {"compiler", __VERSION__}};
      for (const auto& [name, version] : library_versions()) out["libraries"][name] = version;
      fmt::print("{}\n", out.dump(2));
      return 0;
    }
    std::string libraries;
    for (const auto& [name, version] : library_versions())
      libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, version);
    fmt::print("{}\n{}\n", version_text(), libraries);
    return 0;
  };
}

}  // namespace tandem
