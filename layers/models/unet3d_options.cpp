// The keys of unet3d in a job file and their rules.
#include "layers/models/unet3d_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxFeatures = 1 << 14;
constexpr std::int64_t kMaxStages = 10, kMaxStride = 16, kMaxKernel = 15;

using Triples = std::optional<std::vector<std::array<std::int64_t, 3>>>;
// Called with a key and what is wrong with it.
using Report = std::function<void(std::string_view key, const std::string& text)>;

void check_count(const Report& report, std::string_view key, const Triples& list, std::size_t stages) {
  if (list && list->size() != stages)
    report(key, fmt::format("got {} entries, expected {}: one per stage of features", list->size(), stages));
}

void apply_rules(const UNet3dOptions& o, const Report& report) {
  const std::size_t stages = o.features.size();
  if (stages < 2) report("features", fmt::format("got {} stages, expected 2 or more", stages));
  for (const std::int64_t f : o.features)
    if (f < 1) report("features", fmt::format("got {}, expected 1 or more channels", f));
  check_count(report, "strides", o.strides, stages);
  check_count(report, "kernels", o.kernels, stages);
  if (o.strides && !o.strides->empty() && o.strides->front() != std::array<std::int64_t, 3>{1, 1, 1})
    report("strides",
           "got a first stage that shrinks the volume, expected [1, 1, 1]: the output has the input's "
           "size");
  for (const auto& stride : o.strides.value_or(std::vector<std::array<std::int64_t, 3>>{}))
    for (const std::int64_t size : stride)
      if (size < 1) report("strides", fmt::format("got {}, expected 1 or more", size));
  for (const auto& kernel : o.kernels.value_or(std::vector<std::array<std::int64_t, 3>>{}))
    for (const std::int64_t size : kernel)
      if (size < 1 || size % 2 == 0) report("kernels", fmt::format("got {}, expected odd sizes", size));
  const auto norm = parse_norm(o.norm);
  if (!norm)
    report("norm", fmt::format("got '{}', expected instance, batch, group:N or none", o.norm));
  else if (std::ranges::any_of(o.features, [&](std::int64_t f) { return f % norm->groups != 0; }))
    report("norm", fmt::format("got '{}' with features [{}], expected a divisor of each", o.norm,
                               fmt::join(o.features, ", ")));
  if (!parse_activation(o.activation))
    report("activation", fmt::format("got '{}', expected {}", o.activation, kActivationWords));
  if (!(o.dropout >= 0 && o.dropout < 1))
    report("dropout", fmt::format("got {}, expected 0 or more, less than 1", o.dropout));
}

}  // namespace

void check_options(const UNet3dOptions& options) {
  apply_rules(options, [](std::string_view key, const std::string& text) {
    throw Error(ErrorKind::kConfig, fmt::format("[unet3d] model.{}: {}", key, text));
  });
}

std::array<std::int64_t, 3> UNet3dOptions::stride(std::size_t stage) const {
  if (strides) return (*strides)[stage];
  return stage == 0 ? Triple(1) : Triple(2);
}

std::array<std::int64_t, 3> UNet3dOptions::kernel(std::size_t stage) const {
  return kernels ? (*kernels)[stage] : Triple(3);
}

std::array<std::int64_t, 3> UNet3dOptions::size_multiple() const {
  std::array<std::int64_t, 3> product{1, 1, 1};
  for (std::size_t s = 0; s < features.size(); ++s)
    for (std::size_t axis = 0; axis < 3; ++axis) product[axis] *= stride(s)[axis];
  return product;
}

Fields& describe(Fields& description, UNet3dOptions& o) {
  return description
      .integers("features", o.features,
                {.min = 1, .max = kMaxFeatures, .min_size = 2, .max_size = kMaxStages},
                "Channels per stage, finest first")
      .triples("strides", o.strides, {.min = 1, .max = kMaxStride, .min_size = 2, .max_size = kMaxStages},
               "Stride of each stage, z y x; null: 1, then 2 per stage")
      .triples("kernels", o.kernels, {.min = 1, .max = kMaxKernel, .min_size = 2, .max_size = kMaxStages},
               "Kernel of each stage, z y x, odd; null: 3 everywhere")
      .text("norm", o.norm, "Normalisation after each convolution: instance, batch, group:N or none")
      .text("activation", o.activation, "After each normalisation: " + std::string(kActivationWords))
      .number("dropout", o.dropout, {.min = 0, .max = 1, .exclusive_max = true},
              "Probability that a value after a convolution is set to zero in training")
      .flag("deep_supervision", o.deep_supervision,
            "Train the coarser decoder levels' outputs too, with weights 1, 1/2, 1/4, ..., 0 normalised")
      .check(
          [&o](ErrorList& errors) {
            apply_rules(o,
                        [&errors](std::string_view key, const std::string& text) { errors.rule(key, text); });
          },
          {"name", "features", "strides", "kernels", "norm", "activation", "dropout"});
}

Fields fields(UNet3dOptions& options) {
  Fields description;
  describe(description, options);
  return description;
}

}  // namespace tandem
