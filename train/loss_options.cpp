// The table of losses that a job can name, and the descriptions of their keys.
#include "train/loss_options.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/field_values.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

using Pointwise = LossParts::Pointwise;

struct LossRow {
  std::string_view name;
  LossParts parts;
};

const LossRow kLosses[] = {
    {"dice_ce", {OverlapLoss::kDice, Pointwise::kCrossEntropy}},
    {"dice", {OverlapLoss::kDice, Pointwise::kNone}},
    {"ce", {std::nullopt, Pointwise::kCrossEntropy}},
    {"dice_bce", {OverlapLoss::kDice, Pointwise::kBce}},
    {"bce", {std::nullopt, Pointwise::kBce}},
    {"dice_focal", {OverlapLoss::kDice, Pointwise::kFocal}},
    {"focal", {std::nullopt, Pointwise::kFocal}},
    {"generalized_dice", {OverlapLoss::kGeneralizedDice, Pointwise::kNone}},
    {"generalized_dice_ce", {OverlapLoss::kGeneralizedDice, Pointwise::kCrossEntropy}},
    {"tversky", {OverlapLoss::kTversky, Pointwise::kNone}},
    {"tversky_ce", {OverlapLoss::kTversky, Pointwise::kCrossEntropy}},
    {"mse", {std::nullopt, Pointwise::kError}},
    {"l1", {std::nullopt, Pointwise::kError}},
    {"smooth_l1", {std::nullopt, Pointwise::kError}},
};

// Names of the losses that `fits` accepts.
template <class Fits>
std::vector<std::string> names_of(const Fits& fits) {
  std::vector<std::string> names;
  for (const LossRow& row : kLosses)
    if (fits(row.parts)) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> names_with(Pointwise pointwise) {
  return names_of([&](const LossParts& parts) { return parts.pointwise == pointwise; });
}

NumberRange weight_range() { return {.min = 0, .max = 1e6}; }

constexpr std::pair<std::string_view, ClassWeightRule> kRules[] = {
    {"inverse", ClassWeightRule::kInverse},
    {"sqrt", ClassWeightRule::kSqrt},
    {"effective", ClassWeightRule::kEffective}};

void read_weights(const ConfigNode& node, ErrorList& errors, ClassWeights& weights) {
  constexpr std::string_view kExpected = "null, a list of numbers, inverse, sqrt or effective";
  ClassWeights read;
  if (node.is_scalar()) {
    const auto* rule =
        std::ranges::find(kRules, node.text(), &std::pair<std::string_view, ClassWeightRule>::first);
    if (rule == std::end(kRules)) return errors.wrong(node, kExpected);
    read.rule = rule->second;
  } else if (node.is_list() && !node.items().empty()) {
    const NumberRule rule{weight_range(), 1e6, "a number >= 0 and <= 1e6"};
    for (const ConfigNode& item : node.items()) {
      const std::optional<double> value = read_number_value(item, errors, rule);
      if (!value) return;
      read.values.push_back(*value);
    }
  } else if (!node.is_null()) {
    return errors.wrong(node, kExpected);
  }
  weights = std::move(read);
}

ConfigNode write_weights(const ClassWeights& weights) {
  for (const auto& [word, rule] : kRules)
    if (weights.rule == rule) return ConfigNode::scalar(std::string(word));
  if (weights.values.empty()) return {};
  ConfigNode list = ConfigNode::list();
  for (const double value : weights.values) list.append(ConfigNode::scalar(format_number(value)));
  return list;
}

// A field of ClassWeights.
void add_weights(Fields& fields, std::string name, ClassWeights& weights, std::string doc) {
  fields.custom(
      std::move(name), "numbers or word",
      [&weights](const ConfigNode& node, ErrorList& errors) { read_weights(node, errors, weights); },
      [&weights] { return write_weights(weights); }, std::move(doc));
}

constexpr const char* kWeightsDoc =
    "Weight of each class, in the order of data.labels, or the rule that makes them of the training voxels: "
    "inverse N / (K n), sqrt of it, effective (Cui et al. 2019); null: all 1";

}  // namespace

Fields fields(LossOptions::Dice& o) {
  return Fields()
      .flag("batch", o.batch, "One value per class over the batch instead of per sample")
      .flag("background", o.background, "Count class 0 too")
      .flag("squared", o.squared, "Sum the squares of the probabilities in the denominator")
      .number("smooth", o.smooth, {.min = 0, .max = 1e6}, "Added to numerator and denominator")
      .number("weight", o.weight, weight_range(), "Weight of the overlap term");
}

Fields fields(LossOptions::CrossEntropy& o) {
  Fields description;
  add_weights(description, "class_weights", o.class_weights, kWeightsDoc);
  return std::move(description
                       .number("label_smoothing", o.label_smoothing,
                               {.min = 0, .max = 1, .exclusive_max = true},
                               "Part of the target spread over all classes")
                       .number("weight", o.weight, weight_range(), "Weight of the cross entropy term"));
}

Fields fields(LossOptions::Bce& o) {
  Fields description;
  add_weights(description, "pos_weight", o.pos_weight, "Weight of target 1 in each channel; null: all 1");
  return std::move(
      description.number("weight", o.weight, weight_range(), "Weight of the binary cross entropy term")
          .check([&o](ErrorList& errors) {
            if (o.pos_weight.rule)
              errors.rule("pos_weight", "got a rule, expected null or a list of numbers");
          }));
}

Fields fields(LossOptions::Focal& o) {
  Fields description;
  description.number("gamma", o.gamma, {.min = 0, .max = 100}, "Power of 1 - probability of the target")
      .number("alpha", o.alpha, {.min = 0, .max = 1},
              "With sigmoid: weight of target 1, 1 - alpha of target 0; null: both 1");
  add_weights(description, "class_weights", o.class_weights, kWeightsDoc);
  return std::move(description.number("weight", o.weight, weight_range(), "Weight of the focal term"));
}

Fields fields(LossOptions::Tversky& o) {
  return Fields()
      .number("alpha", o.alpha, {.min = 0, .max = 1e3}, "Weight of false positives")
      .number("beta", o.beta, {.min = 0, .max = 1e3}, "Weight of false negatives");
}

Fields fields(LossOptions::SmoothL1& o) {
  return Fields().number("beta", o.beta, {.min = 0, .max = 1e3, .exclusive_min = true},
                         "Difference below which the error is squared");
}

Fields fields(LossOptions& o) {
  const auto has_overlap = [](const LossParts& parts) { return parts.overlap.has_value(); };
  const auto is_free = [](const LossParts& parts) {
    return parts.pointwise == Pointwise::kNone || parts.pointwise == Pointwise::kFocal;
  };
  return Fields()
      .choice("name", o.name, names_of([](const LossParts&) { return true; }),
              "Overlap of prediction and truth, a loss per voxel, or both; mse, l1 and smooth_l1 compare the "
              "probabilities with 0 and 1")
      .choice("activation", o.activation, {"softmax", "sigmoid"},
              "From logits to probabilities, where the loss leaves it open")
      .group("dice", o.dice, "Overlap: Dice, generalized Dice, Tversky")
      .group("ce", o.ce, "Cross entropy")
      .group("bce", o.bce, "Binary cross entropy")
      .group("focal", o.focal, "Focal loss")
      .group("tversky", o.tversky, "Tversky's index")
      .group("smooth_l1", o.smooth_l1, "Smooth L1")
      .only_for({"activation"}, "name", names_of(is_free))
      .only_for({"dice"}, "name", names_of(has_overlap))
      .only_for({"ce"}, "name", names_with(Pointwise::kCrossEntropy))
      .only_for({"bce"}, "name", names_with(Pointwise::kBce))
      .only_for({"focal"}, "name", names_with(Pointwise::kFocal))
      .only_for({"tversky"}, "name", {"tversky", "tversky_ce"})
      .only_for({"smooth_l1"}, "name", {"smooth_l1"})
      .check([&o](ErrorList& errors) {
        const bool focal = loss_parts(o).pointwise == Pointwise::kFocal;
        if (focal && o.focal.alpha && loss_activation(o) == LossActivation::kSoftmax)
          errors.rule("focal.alpha",
                      "got a number with activation softmax, expected null: use class_weights");
      });
}

LossParts loss_parts(const LossOptions& options) {
  const auto row = std::ranges::find(kLosses, options.name, &LossRow::name);
  check_internal(row != std::end(kLosses), "an unknown loss: " + options.name);
  return row->parts;
}

LossActivation loss_activation(const LossOptions& options) {
  const Pointwise pointwise = loss_parts(options).pointwise;
  if (pointwise == Pointwise::kCrossEntropy) return LossActivation::kSoftmax;
  if (pointwise == Pointwise::kBce) return LossActivation::kSigmoid;
  return options.activation == "sigmoid" ? LossActivation::kSigmoid : LossActivation::kSoftmax;
}

namespace {

// The weights per class that the named loss reads; null if it has none.
const ClassWeights* class_weights_of(const LossOptions& options) {
  switch (loss_parts(options).pointwise) {
    case Pointwise::kCrossEntropy:
      return &options.ce.class_weights;
    case Pointwise::kBce:
      return &options.bce.pos_weight;
    case Pointwise::kFocal:
      return &options.focal.class_weights;
    default:
      return nullptr;
  }
}

std::string_view weights_key(const LossOptions& options) {
  const Pointwise pointwise = loss_parts(options).pointwise;
  return pointwise == Pointwise::kCrossEntropy ? "ce.class_weights"
         : pointwise == Pointwise::kBce        ? "bce.pos_weight"
                                               : "focal.class_weights";
}

double pointwise_weight(const LossOptions& options) {
  switch (loss_parts(options).pointwise) {
    case Pointwise::kCrossEntropy:
      return options.ce.weight;
    case Pointwise::kBce:
      return options.bce.weight;
    case Pointwise::kFocal:
      return options.focal.weight;
    default:
      return 0;
  }
}

}  // namespace

SegmentationLossArgs loss_args(const LossOptions& options, std::optional<std::int32_t> ignore_label) {
  const LossParts parts = loss_parts(options);
  const bool focal = parts.pointwise == Pointwise::kFocal;
  SegmentationLossArgs args{
      .ce_weight = pointwise_weight(options),
      .dice_weight = parts.overlap ? options.dice.weight : 0,
      .smooth = options.dice.smooth,
      .label_smoothing = parts.pointwise == Pointwise::kCrossEntropy ? options.ce.label_smoothing : 0,
      .dice_batch = options.dice.batch,
      .dice_background = options.dice.background,
      .dice_squared = options.dice.squared,
      .has_ignore_label = ignore_label.has_value(),
      .ignore_label = ignore_label.value_or(0),
      .activation = loss_activation(options),
      .overlap = parts.overlap.value_or(OverlapLoss::kDice),
      .tversky_alpha = options.tversky.alpha,
      .tversky_beta = options.tversky.beta};
  if (focal) args.gamma = options.focal.gamma;
  if (focal) args.alpha = options.focal.alpha;
  if (const ClassWeights* weights = class_weights_of(options)) args.class_weights = weights->values;
  return args;
}

bool needs_class_counts(const LossOptions& options) {
  const ClassWeights* weights = class_weights_of(options);
  return weights != nullptr && weights->rule.has_value();
}

LossOptions with_class_counts(LossOptions options, const std::vector<std::int64_t>& counts) {
  if (!needs_class_counts(options)) return options;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] <= 0)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("[loss] {}: got a rule, but class {} of data.labels has no voxel in the training "
                      "data, expected at least one",
                      weights_key(options), c),
          "Give the weights as a list.");
  const bool focal = loss_parts(options).pointwise == Pointwise::kFocal;
  ClassWeights& weights = focal ? options.focal.class_weights : options.ce.class_weights;
  weights = {class_weights(*weights.rule, counts), std::nullopt};
  return options;
}

std::optional<LossFault> loss_fault(const LossOptions& options, std::int64_t classes, bool ignores) {
  const ClassWeights* weights = class_weights_of(options);
  if (weights != nullptr && !weights->values.empty() &&
      static_cast<std::int64_t>(weights->values.size()) != classes)
    return LossFault{std::string(weights_key(options)),
                     fmt::format("got {} values, expected {}: one per class of data.labels",
                                 weights->values.size(), classes),
                     ""};
  if (ignores && loss_parts(options).pointwise == Pointwise::kError)
    return LossFault{
        "name",
        fmt::format("got {} with data.ignore_label, expected a loss that can leave voxels out", options.name),
        "Use dice_ce, ce, bce, focal or tversky."};
  return std::nullopt;
}

}  // namespace tandem
