// Option structs shaped like a job's, for the tests of core/config.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/fields.h"
#include "core/config/load.h"

namespace tandem::config_test {

enum class Compute { kFp32, kBf16, kFp16, kAuto };

struct SgdOptions {
  std::string name = "sgd";
  double lr = 0.01;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double weight_decay = 0;
};
inline Fields fields(SgdOptions& o) {
  return Fields()
      .choice("name", o.name, {"sgd", "adam", "adamw"}, "Kind")
      .number("lr", o.lr, {.min = 0, .max = 10, .exclusive_min = true}, "Learning rate")
      .number("momentum", o.momentum, {.min = 0, .max = 1, .exclusive_max = true}, "Momentum")
      .flag("nesterov", o.nesterov, "Nesterov's form")
      .number("beta1", o.beta1, {.min = 0, .max = 1, .exclusive_max = true}, "First moment")
      .number("weight_decay", o.weight_decay, {.min = 0}, "Decay")
      .only_for({"momentum", "nesterov"}, "name", {"sgd"})
      .only_for({"beta1"}, "name", {"adam", "adamw"});
}

struct ScaleOptions {
  double init = 65536, min = 1, max = 16777216;
};
inline Fields fields(ScaleOptions& o) {
  return Fields()
      .number("init", o.init, {}, "First scale")
      .number("min", o.min, {}, "Smallest")
      .number("max", o.max, {}, "Largest")
      .check([&o](ErrorList& errors) {
        if (o.init < o.min || o.init > o.max)
          errors.rule("init",
                      fmt::format("got {}, expected between min ({}) and max ({})", o.init, o.min, o.max));
      });
}

struct PrecisionOptions {
  Compute compute = Compute::kAuto;
  ScaleOptions loss_scale;
};
inline Fields fields(PrecisionOptions& o) {
  return Fields()
      .choice("compute", o.compute,
              {{"fp32", Compute::kFp32},
               {"bf16", Compute::kBf16},
               {"fp16", Compute::kFp16},
               {"auto", Compute::kAuto}},
              "Dtype")
      .group("loss_scale", o.loss_scale, "Loss scale");
}

struct EmaOptions {
  double decay = 0.999;
};
inline Fields fields(EmaOptions& o) {
  return Fields().number("decay", o.decay, {.min = 0, .max = 1}, "Decay");
}

struct NormalizeOptions {
  std::int64_t channel = 0;
  std::optional<std::array<double, 2>> clip;
};
inline Fields fields(NormalizeOptions& o) {
  return Fields()
      .integer("channel", o.channel, {.min = 0}, "Channel")
      .numbers("clip", o.clip, {}, "Low and high");
}

struct DataOptions {
  std::vector<std::string> train;
  std::optional<std::string> cache_dir;
  std::int64_t cache_bytes = std::int64_t{8} << 30;
  std::optional<std::int64_t> workers;
  std::vector<NormalizeOptions> normalize;
};
inline Fields fields(DataOptions& o) {
  return Fields()
      .paths("train", o.train, "Files")
      .path("cache_dir", o.cache_dir, "Folder")
      .bytes("cache_bytes", o.cache_bytes, {.min = 0}, "Cache")
      .integer_or_auto("workers", o.workers, {.min = 0, .max = 256}, "Threads")
      .list("normalize", o.normalize, "Per channel");
}

struct ModelOptions {
  std::string name = "unet3d";
  std::vector<std::int64_t> features{16, 32};
  std::optional<std::vector<std::array<std::int64_t, 3>>> strides;
  std::vector<std::string> tags;
  float dropout = 0.1f;
};
inline Fields fields(ModelOptions& o) {
  return Fields()
      .text("name", o.name, "Model")
      .integers("features", o.features, {.min = 1, .max = 4096, .min_size = 1, .max_size = 8},
                "Channels per stage")
      .triples("strides", o.strides, {.min = 1, .max = 8}, "Per stage")
      .texts("tags", o.tags, "Words")
      .number("dropout", o.dropout, {.min = 0, .max = 1}, "Probability");
}

struct TrainOptions {
  std::int64_t batch_size = 2;
  std::optional<std::int64_t> iterations;
  std::optional<double> clip_norm = 12;
  int every = 10;
};
inline Fields fields(TrainOptions& o) {
  return Fields()
      .integer("batch_size", o.batch_size, {.min = 1, .max = 65536}, "Samples")
      .integer("iterations", o.iterations, {.min = 1}, "Steps", "steps")
      .number("clip_norm", o.clip_norm, {.min = 0, .exclusive_min = true}, "Clip; null: off")
      .integer("every", o.every, {}, "Interval");
}

struct Job {
  std::string name = "job";
  std::uint64_t seed = 1234;
  PrecisionOptions precision;
  DataOptions data;
  ModelOptions model;
  SgdOptions optimizer;
  std::optional<EmaOptions> ema;
  std::array<std::int64_t, 3> patch{48, 48, 48};
  TrainOptions train;
};
inline Fields fields(Job& o) {
  return Fields()
      .text("name", o.name, "Name")
      .integer("seed", o.seed, {}, "Seed")
      .group("precision", o.precision, "Precision")
      .group("data", o.data, "Data")
      .group("model", o.model, "Network")
      .group("optimizer", o.optimizer, "Optimizer")
      .group("ema", o.ema, "Average | of <weights>")
      .integers("patch", o.patch, {.min = 1}, "Patch size", "voxels")
      .group("train", o.train, "Loop");
}

inline Job parse_job(const std::string& text) {
  Job job;
  parse_options(parse_yaml_text(text, "t.yaml"), fields(job));
  return job;
}

// The message of the Error{kConfig} that `run` throws; "no error" if it throws none.
template <class F>
std::string error_text(F&& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.kind() == ErrorKind::kConfig ? e.what() : std::string("wrong kind: ") + e.what();
  }
  return "no error";
}

}  // namespace tandem::config_test
