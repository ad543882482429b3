// Activations as layers: by their word in a job file, and the one with a learned slope.
#pragma once

#include <optional>
#include <string_view>

#include "layers/module.h"

namespace tandem {

struct ActivationSpec {
  Activation kind = Activation::kNone;
  double slope = 0;         // of kLeakyRelu; alpha of kElu
  bool is_learned = false;  // a slope per channel (PRelu); kind is kNone
};

// none, relu, leaky_relu (0.01), leaky_relu:SLOPE with 0 < SLOPE < 1, prelu, elu (1), elu:ALPHA with 0 <
// ALPHA
// <= 100, gelu, gelu_tanh, silu, sigmoid, tanh, softplus; nothing for other words.
std::optional<ActivationSpec> parse_activation(std::string_view text);
// The words of parse_activation as a message names them.
inline constexpr std::string_view kActivationWords =
    "none, relu, leaky_relu:SLOPE with a slope between 0 and 1, prelu, elu:ALPHA, gelu, gelu_tanh, silu, "
    "sigmoid, "
    "tanh or softplus";

// The activation of `spec`, which is not a learned one, in one op.
Var activate(const Var& x, const ActivationSpec& spec);

// y = x where x >= 0, else weight x. Parameter, FP32: weight [channels], or [1] for all channels, = 0.25.
class PRelu : public Module {
 public:
  explicit PRelu(std::int64_t channels);

 protected:
  Outputs forward(const Var& x) override;

 private:
  Parameter weight_;
};

}  // namespace tandem
