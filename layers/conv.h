// Convolution layers: a weight, an optional bias, and the ops of core/ops/conv.h.
#pragma once

#include <optional>

#include "layers/module.h"
#include "layers/triple.h"

namespace tandem {

// PyTorch's default initialisation of conv and linear layers: weights kaiming uniform with a = sqrt(5), which
// is uniform in +-1/sqrt(fan_in), and biases uniform in the same range.
inline constexpr Initializer kDefaultWeightInit{Initializer::Kind::kKaimingUniform, 2.23606797749979};

// y = conv(x, weight) + bias. x [N, in, spatial] -> [N, out, spatial'], spatial' = floor((spatial + 2 padding
// - dilation (kernel - 1) - 1) / stride) + 1. Parameters: weight [out, in/groups, kernel], bias [out] (FP32).
// x is cast to the weight's dtype where they differ. Throws Error{kShape} for options that make no layer.
class Conv : public Module {
 public:
  struct Options {
    int dims = 3;  // 1, 2 or 3
    std::int64_t in = 0, out = 0;
    Triple kernel = 3, stride = 1, padding = 0, dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    Initializer weight_init = kDefaultWeightInit;
    std::optional<Initializer> bias_init;  // absent: uniform in +-1/sqrt(fan_in)
  };

  explicit Conv(const Options& options);
  const Options& options() const { return options_; }
  // dtype in which this layer computes; known once a ParamStore has bound it.
  DType compute_dtype() const { return weight_.value().dtype(); }

 protected:
  Outputs forward(const Var& x) override;

 private:
  Options options_;
  Parameter weight_, bias_;
};

// The transpose of Conv: spatial' = (spatial - 1) stride - 2 padding + dilation (kernel - 1) + output_padding
// + 1. Parameters: weight [in, out/groups, kernel] (PyTorch's order), bias [out] (FP32).
class ConvTranspose : public Module {
 public:
  struct Options {
    int dims = 3;
    std::int64_t in = 0, out = 0;
    Triple kernel = 2, stride = 2, padding = 0, output_padding = 0, dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    Initializer weight_init = kDefaultWeightInit;
    std::optional<Initializer> bias_init;
  };

  explicit ConvTranspose(const Options& options);
  const Options& options() const { return options_; }

 protected:
  Outputs forward(const Var& x) override;

 private:
  Options options_;
  Parameter weight_, bias_;
};

}  // namespace tandem
