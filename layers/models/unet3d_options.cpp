// The keys of unet3d in a job file and their rules.
#include "layers/models/unet3d_options.h"

#include <functional>

#include "core/base/error.h"
#include "core/config/numbers.h"

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
  if (o.norm != "instance") report("norm", fmt::format("got '{}', expected instance", o.norm));
  if (!parse_activation(o.activation))
    report("activation",
           fmt::format("got '{}', expected relu or leaky_relu:SLOPE with a slope between 0 and 1",
                       o.activation));
}

}  // namespace

std::optional<ParsedActivation> parse_activation(std::string_view text) {
  constexpr std::string_view kLeaky = "leaky_relu";
  if (text == "relu") return ParsedActivation{Activation::kRelu, 0};
  if (text == kLeaky) return ParsedActivation{Activation::kLeakyRelu, 0.01};
  if (!text.starts_with(kLeaky) || text[kLeaky.size()] != ':') return std::nullopt;
  const auto slope = read_number(text.substr(kLeaky.size() + 1)).value;
  if (!slope || *slope <= 0 || *slope >= 1) return std::nullopt;
  return ParsedActivation{Activation::kLeakyRelu, *slope};
}

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
      .choice("norm", o.norm, {"instance"}, "Normalisation after each convolution")
      .text("activation", o.activation, "After each normalisation: relu, or leaky_relu:SLOPE")
      .check([&o](ErrorList& errors) {
        apply_rules(o, [&errors](std::string_view key, const std::string& text) { errors.rule(key, text); });
      });
}

Fields fields(UNet3dOptions& options) {
  Fields description;
  describe(description, options);
  return description;
}

}  // namespace tandem
