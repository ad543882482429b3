// Words, ops and the learned slope.
#include "layers/activation.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/numbers.h"
#include "core/ops/elementwise.h"

namespace tandem {
namespace {

// A row per word: its largest parameter (0: takes none) and the one it has without.
struct ActivationRow {
  std::string_view word;
  Activation kind;
  double largest = 0, without = 0;
};

constexpr ActivationRow kRows[] = {
    {"none", Activation::kNone},
    {"relu", Activation::kRelu},
    {"leaky_relu", Activation::kLeakyRelu, 1, 0.01},
    {"elu", Activation::kElu, 100, 1},
    {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"silu", Activation::kSilu},
    {"sigmoid", Activation::kSigmoid},
    {"tanh", Activation::kTanh},
    {"softplus", Activation::kSoftplus},
};

}  // namespace

std::optional<ActivationSpec> parse_activation(std::string_view text) {
  if (text == "prelu") return ActivationSpec{.is_learned = true};
  const std::size_t colon = text.find(':');
  const auto row = std::ranges::find(kRows, text.substr(0, colon), &ActivationRow::word);
  if (row == std::end(kRows)) return std::nullopt;
  if (colon == std::string_view::npos) return ActivationSpec{row->kind, row->without};
  const auto value = read_number(text.substr(colon + 1)).value;
  const bool fits = value && *value > 0 && (row->largest == 1 ? *value < 1 : *value <= row->largest);
  if (!fits) return std::nullopt;
  return ActivationSpec{row->kind, *value};
}

Var activate(const Var& x, const ActivationSpec& spec) {
  switch (spec.kind) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return relu(x);
    case Activation::kLeakyRelu:
      return leaky_relu(x, spec.slope);
    case Activation::kElu:
      return elu(x, spec.slope);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kSilu:
      return silu(x);
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kTanh:
      return tanh(x);
    case Activation::kSoftplus:
      return softplus(x);
  }
  return x;
}

PRelu::PRelu(std::int64_t channels)
    : weight_(Shape{channels}, ParamRegion::kKept, {Initializer::Kind::kConstant, 0.25}) {
  if (channels < 1) fail(ErrorKind::kShape, "[prelu] no channels: got {}, expected 1 or more", channels);
  add("weight", weight_);
}

Outputs PRelu::forward(const Var& x) { return prelu(x, weight_.on(x.tape())); }

}  // namespace tandem
