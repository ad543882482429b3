// The fully connected layer.
#pragma once

#include <optional>

#include "layers/conv.h"

namespace tandem {

// y = x weight^T + bias. x [N, in] -> [N, out]. Parameters: weight [out, in], bias [out] (FP32). x is cast to
// the weight's dtype where they differ.
class Linear : public Module {
 public:
  struct Options {
    std::int64_t in = 0, out = 0;
    bool bias = true;
    Initializer weight_init = kDefaultWeightInit;
    std::optional<Initializer> bias_init;  // absent: uniform in +-1/sqrt(in)
  };

  explicit Linear(const Options& options);

 protected:
  Outputs forward(const Var& x) override;

 private:
  Options options_;
  Parameter weight_, bias_;
};

}  // namespace tandem
