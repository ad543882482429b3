// The resolved file: everything in it, readable again to the same values; origins and the table for the docs.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "tests/config/sample_options.h"

namespace tandem::config_test {
namespace {

TEST(Emit, EveryDefaultIsWritten) {
  Job job;
  EXPECT_EQ(
      emit_yaml(fields(job)),
      "name: job\nseed: 1234\nprecision:\n  compute: auto\n  loss_scale:\n    init: 65536\n    min: 1\n    "
      "max: "
      "16777216\ndata:\n  train: []\n  cache_dir: null\n  cache_bytes: 8GiB\n  workers: auto\n  normalize: "
      "[]\n"
      "model:\n  name: unet3d\n  features: [16, 32]\n  strides: null\n  tags: []\n  dropout: 0.1\n"
      "optimizer:\n  name: sgd\n  lr: 0.01\n  momentum: 0.9\n  nesterov: false\n  weight_decay: 0\nema: "
      "null\n"
      "patch: [48, 48, 48]\ntrain:\n  batch_size: 2\n  iterations: null\n  clip_norm: 12\n  every: 10\n");
}

TEST(Emit, ReadsBackToTheSameValues) {
  Job job;
  job.name = "with: colon, \"quotes\" and\nlines \xc2\x85 # not a comment";
  job.seed = 18446744073709551615u;
  job.precision.compute = Compute::kBf16;
  job.data.train = {"/a b/c.h5", "/ü/*.nii.gz", "/-", "/x: y", "/#1"};
  job.data.cache_dir = "/[tmp]";
  job.data.cache_bytes = 1536;
  job.data.workers = 0;
  job.data.normalize = {{.channel = 2, .clip = {{-1e-5, 0.1}}}, {}};
  job.model.name = "off";
  job.model.strides = {{{1, 1, 1}, {1, 2, 2}}};
  job.model.tags = {"",
                    "null",
                    "~",
                    "true",
                    "010",
                    "1e-3",
                    ".5",
                    "- x",
                    "a,b",
                    "[",
                    "{",
                    "<<",
                    "&a",
                    "*a",
                    "!t",
                    "%",
                    "@",
                    "`",
                    "|",
                    ">",
                    "?",
                    ":",
                    "a:",
                    "::",
                    " x ",
                    "\t",
                    "'",
                    "\"",
                    "\\",
                    "y",
                    "No",
                    "inf",
                    "0x1f",
                    "1_000",
                    "2001-01-01",
                    "12:30:45",
                    "\xef\xbb\xbf",
                    "\xe2\x80\xa8",
                    "---",
                    "...",
                    "#",
                    "key: value"};
  job.model.dropout = 0.3f;
  job.optimizer.lr = 1e-5;
  job.optimizer.weight_decay = 0.1 + 0.2;
  job.ema = EmaOptions{.decay = 0.9999999999999999};
  job.train.clip_norm = std::nullopt;
  const std::string text = emit_yaml(fields(job));
  Job again = parse_job(text);
  EXPECT_EQ(emit_yaml(fields(again)), text);
  EXPECT_EQ(again.name, job.name);
  EXPECT_EQ(again.seed, job.seed);
  EXPECT_EQ(again.precision.compute, job.precision.compute);
  EXPECT_EQ(again.data.train, job.data.train);
  EXPECT_EQ(again.data.cache_dir, job.data.cache_dir);
  EXPECT_EQ(again.data.cache_bytes, job.data.cache_bytes);
  EXPECT_EQ(again.data.workers, job.data.workers);
  ASSERT_EQ(again.data.normalize.size(), 2u);
  EXPECT_EQ(again.data.normalize[0].clip, job.data.normalize[0].clip);
  EXPECT_EQ(again.model.name, job.model.name);
  EXPECT_EQ(again.model.strides, job.model.strides);
  EXPECT_EQ(again.model.tags, job.model.tags);
  EXPECT_EQ(again.model.dropout, job.model.dropout);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(again.optimizer.weight_decay),
            std::bit_cast<std::uint64_t>(job.optimizer.weight_decay));
  EXPECT_EQ(again.ema->decay, job.ema->decay);
  EXPECT_EQ(again.train.clip_norm, std::nullopt);
}

TEST(Emit, WordsThatOtherReadersMisreadAreQuoted) {
  Job job;
  job.model.name = "off";
  job.optimizer.lr = 1e-5;
  const std::string text = emit_yaml(fields(job));
  EXPECT_NE(text.find("  name: \"off\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  lr: 1.0e-05\n"), std::string::npos) << text;  // YAML 1.1 takes 1e-05 for a text
}

TEST(Emit, OriginsNameFileAndLineOrDefault) {
  ConfigNode tree =
      parse_yaml_text("optimizer:\n  lr: 0.5\ndata:\n  normalize:\n  - {channel: 1}\n", "t.yaml");
  apply_override(tree, "train.batch_size=4", 1);
  Job job;
  parse_options(tree, fields(job));
  const std::string text = to_yaml(fields(job).emit(), &tree);
  EXPECT_NE(text.find("\n  lr: 0.5  # t.yaml:2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  batch_size: 4  # command line\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nseed: 1234"), std::string::npos) << text;
  EXPECT_NE(text.find("seed: 1234  # default\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  normalize:  # t.yaml:5\n    - {channel: 1, clip: null}\n"), std::string::npos)
      << text;
  parse_options(parse_yaml_text(text, "again.yaml"), fields(job));  // the comments do not disturb
}

TEST(Emit, TableForTheDocs) {
  Job job;
  const std::string table = describe_markdown(fields(job));
  EXPECT_TRUE(table.starts_with(
      "| key | type | range or values | default | unit | meaning |\n|---|---|---|---|---|---|\n| "
      "`name` | text |  | `job` |  | Name |\n"))
      << table;
  for (const char* row :
       {"| `precision.compute` | choice | fp32, bf16, fp16, auto | `auto` |  | Dtype |\n",
        "| `optimizer.lr` | number | > 0 and <= 10 | `0.01` |  | Learning rate |\n",
        "| `optimizer.beta1` | number | >= 0 and < 1 | `0.9` |  | First moment (only with name: adam, adamw) "
        "|\n",
        "| `ema` | map or null |  | `null` |  | Average \\| of \\<weights> |\n",
        "| `ema.decay` | number | >= 0 and <= 1 | `0.999` |  | Decay |\n",
        "| `data.normalize` | list of maps |  | `[]` |  | Per channel |\n",
        "| `data.normalize[].clip` | list of numbers or null |  | `null` |  | Low and high |\n",
        "| `data.cache_bytes` | bytes | >= 0 | `8GiB` | bytes | Cache |\n",
        "| `data.workers` | integer or auto | >= 0 and <= 256 | `auto` |  | Threads |\n",
        "| `patch` | list of integers | >= 1 | `[48, 48, 48]` | voxels | Patch size |\n"})
    EXPECT_NE(table.find(row), std::string::npos) << row << "in\n" << table;
}

}  // namespace
}  // namespace tandem::config_test
