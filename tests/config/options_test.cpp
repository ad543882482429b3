// Reading option structs: exact texts and places of every kind of error, all in one go; values of every kind.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/sample_options.h"

namespace tandem::config_test {
namespace {

struct Case {
  std::string yaml, error;  // without the final newline
};

TEST(Options, ErrorsWithTheExactTextAndPlace) {
  const std::vector<Case> cases = {
      // Unknown keys.
      {"optimizer:\n  learing_rate: 1e-3",
       "unknown key 'optimizer.learing_rate'\n  --> t.yaml:2:3     did you mean 'lr'? Keys here: name, lr, "
       "momentum, nesterov, "
       "beta1, "
       "weight_decay"},
      {"optimizer:\n  learning_rate: 1e-3",
       "unknown key 'optimizer.learning_rate'\n  --> t.yaml:2:3     did you mean 'lr'? Keys here: name, lr, "
       "momentum, "
       "nesterov, beta1, weight_decay"},
      {"train:\n  batchsize: 2",
       "unknown key 'train.batchsize'\n  --> t.yaml:2:3     did you mean 'batch_size'? Keys here: "
       "batch_size, iterations, "
       "clip_norm, every"},
      {"lr: 1",
       "unknown key 'lr'\n  --> t.yaml:1:1     did you mean 'optimizer.lr'? Keys here: name, seed, "
       "precision, data, model, "
       "optimizer, ema, patch, train"},
      {"inherits: [a.yaml]",
       "unknown key 'inherits'\n  --> t.yaml:1:1     did you mean 'inherit'? Keys here: name, seed, "
       "precision, data, model, "
       "optimizer, ema, patch, train"},
      {"seed:5\n",
       "the job: got 'seed:5', expected a map of 'key: value'\n  --> t.yaml:1:1     is a space missing after "
       "':'?"},
      {"name: x\nseed:5\n", "unknown key 'seed:5'\n  --> t.yaml:2:1     is a space missing after ':'?"},
      {"data: {normalize: [{chanel: 1}]}",
       "unknown key 'data.normalize[0].chanel'\n  --> t.yaml:1:21     did you mean 'channel'? Keys here: "
       "channel, clip"},
      {"\"a\\e[31m\": 1",
       "unknown key 'a\\x1b[31m'\n  --> t.yaml:1:1     Keys here: name, seed, precision, data, model, "
       "optimizer, ema, patch, "
       "train"},
      // Numbers.
      {"optimizer: {lr: fast}",
       "'optimizer.lr': got 'fast', expected a number > 0 and <= 10\n  --> t.yaml:1:17"},
      {"optimizer: {lr: 0}", "'optimizer.lr': got '0', expected a number > 0 and <= 10\n  --> t.yaml:1:17"},
      {"optimizer: {lr: 10.5}",
       "'optimizer.lr': got '10.5', expected a number > 0 and <= 10\n  --> t.yaml:1:17"},
      {"optimizer: {lr: '1e-3'}",
       "'optimizer.lr': got the quoted text '1e-3', expected a number > 0 and <= 10\n  --> t.yaml:1:17     "
       "remove the "
       "quotes"},
      {"optimizer: {lr: [1]}",
       "'optimizer.lr': got a list of 1, expected a number > 0 and <= 10\n  --> t.yaml:1:17"},
      {"optimizer: {lr: {a: 1}}",
       "'optimizer.lr': got a map {a}, expected a number > 0 and <= 10\n  --> t.yaml:1:17"},
      {"optimizer:\n  lr:\n", "'optimizer.lr': got null, expected a number > 0 and <= 10\n  --> t.yaml:2:3"},
      {"optimizer: {lr: .inf}",
       "'optimizer.lr': got '.inf', expected a number > 0 and <= 10\n  --> t.yaml:1:17     a number must be "
       "finite"},
      {"optimizer: {weight_decay: 1e999}",
       "'optimizer.weight_decay': got '1e999', expected a number >= 0\n  --> t.yaml:1:27     its magnitude "
       "does not fit a "
       "double (2.2e-308 to 1.8e308)"},
      {"optimizer: {momentum: 1}",
       "'optimizer.momentum': got '1', expected a number >= 0 and < 1\n  --> t.yaml:1:23"},
      {"train: {clip_norm: off}",
       "'train.clip_norm': got 'off', expected a number > 0 or null\n  --> t.yaml:1:20"},
      // Integers.
      {"train: {batch_size: 2.5}",
       "'train.batch_size': got '2.5', expected an integer >= 1 and <= 65536\n  --> t.yaml:1:21"},
      {"train: {batch_size: 010}",
       "'train.batch_size': got '010', expected an integer >= 1 and <= 65536\n  --> t.yaml:1:21     a "
       "leading zero is "
       "ambiguous (octal or decimal): write 10"},
      {"train: {batch_size: 1_000}",
       "'train.batch_size': got '1_000', expected an integer >= 1 and <= 65536\n  --> t.yaml:1:21     write "
       "the digits "
       "without '_'"},
      {"train: {batch_size: 65537}",
       "'train.batch_size': got '65537', expected an integer >= 1 and <= 65536\n  --> t.yaml:1:21"},
      {"train: {iterations: 0}",
       "'train.iterations': got '0', expected an integer >= 1 or null\n  --> t.yaml:1:21"},
      {"train: {every: 2147483648}",
       "'train.every': got '2147483648', expected an integer\n  --> t.yaml:1:16     at most 2147483647 fits"},
      {"train: {iterations: 9223372036854775808}",
       "'train.iterations': got '9223372036854775808', expected an integer >= 1 or null\n  --> t.yaml:1:21   "
       "  at most "
       "9223372036854775807 fits"},
      {"seed: -1", "'seed': got '-1', expected an integer >= 0\n  --> t.yaml:1:7"},
      {"data: {workers: many}",
       "'data.workers': got 'many', expected an integer >= 0 and <= 256 or auto\n  --> t.yaml:1:17"},
      {"data: {cache_bytes: 8Gb/s}",
       "'data.cache_bytes': got '8Gb/s', expected a number of bytes such as 8GiB, >= 0\n  --> t.yaml:1:21"},
      // Flags, choices, texts.
      {"optimizer: {nesterov: yes}",
       "'optimizer.nesterov': got 'yes', expected true or false\n  --> t.yaml:1:23"},
      {"optimizer: {nesterov: 'true'}",
       "'optimizer.nesterov': got the quoted text 'true', expected true or false\n  --> t.yaml:1:23"},
      {"precision: {compute: fp61}",
       "'precision.compute': got 'fp61', expected one of fp32, bf16, fp16, auto\n  --> t.yaml:1:22     did "
       "you mean 'fp16'?"},
      {"precision: {compute: [fp16]}",
       "'precision.compute': got a list of 1, expected one of fp32, bf16, fp16, auto\n  --> t.yaml:1:22"},
      {"optimizer: {name: adamx}",
       "'optimizer.name': got 'adamx', expected one of sgd, adam, adamw\n  --> t.yaml:1:19     did you mean "
       "'adam'?"},
      {"name: [a]", "'name': got a list of 1, expected a text\n  --> t.yaml:1:7"},
      {"data: {train: ['']}", "'data.train[0]': got the quoted text '', expected a path\n  --> t.yaml:1:16"},
      // Lists.
      {"model: {features: []}",
       "'model.features': got an empty list, expected a list of 1 to 8 integers >= 1 and <= 4096\n  --> "
       "t.yaml:1:19"},
      {"model: {features: [16, x, 0]}",
       "'model.features[1]': got 'x', expected an integer >= 1 and <= 4096\n  --> t.yaml:1:24\n"
       "error: 'model.features[2]': got '0', expected an integer >= 1 and <= 4096\n  --> t.yaml:1:27\n"
       "2 errors, nothing was run"},
      {"model: {features: 16}",
       "'model.features': got '16', expected a list of 1 to 8 integers >= 1 and <= 4096\n  --> t.yaml:1:19"},
      {"patch: [48, 48]", "'patch': got a list of 2, expected a list of 3 integers >= 1\n  --> t.yaml:1:8"},
      {"model: {strides: [[1, 2]]}",
       "'model.strides[0]': got a list of 2, expected a list of 3 integers >= 1 and <= 8\n  --> t.yaml:1:19"},
      {"model: {strides: [[1, 2, 9]]}",
       "'model.strides[0][2]': got '9', expected an integer >= 1 and <= 8\n  --> t.yaml:1:26"},
      {"model: {strides: 2}",
       "'model.strides': got '2', expected a list of triples of integers >= 1 and <= 8 or null\n  --> "
       "t.yaml:1:18"},
      {"data: {normalize: [{clip: [0]}]}",
       "'data.normalize[0].clip': got a list of 1, expected a list of 2 numbers or null\n  --> t.yaml:1:27"},
      // Groups.
      {"data: {normalize: {channel: 0}}",
       "'data.normalize': got a map {channel}, expected a list of maps\n  --> t.yaml:1:19"},
      {"data: {normalize: [zscore]}",
       "'data.normalize[0]': got 'zscore', expected a map of 'key: value'\n  --> t.yaml:1:20"},
      {"optimizer: sgd",
       "'optimizer': got 'sgd', expected a map of 'key: value'\n  --> t.yaml:1:12     for example {name: "
       "sgd}"},
      {"optimizer: null", "'optimizer': got null, expected a map of 'key: value'\n  --> t.yaml:1:12"},
      {"- a", "the job: got a list of 1, expected a map of 'key: value'\n  --> t.yaml:1:1"},
      // Rules over several keys.
      {"precision:\n  loss_scale: {min: 4, init: 2}",
       "'precision.loss_scale.init': got 2, expected between min (4) and max (16777216)\n  --> t.yaml:2:24"},
      {"precision:\n  loss_scale: {min: 131072}",
       "'precision.loss_scale.init': got 65536, expected between min (131072) and max (16777216)\n  --> "
       "t.yaml:2:15"},
      {"optimizer: {name: adamw, momentum: 0.9}",
       "'optimizer.momentum' has no meaning with name: adamw\n  --> t.yaml:1:26     it belongs to name: sgd"},
      {"optimizer:\n  beta1: 0.9",
       "'optimizer.beta1' has no meaning with name: sgd\n  --> t.yaml:2:3     it belongs to name: adam, "
       "adamw"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(error_text([&] { parse_job(c.yaml); }), c.error + "\n") << "for the YAML:\n" << c.yaml;
}

TEST(Options, AllErrorsOfAFileInOneGo) {
  EXPECT_EQ(error_text([] {
              parse_job("optimizer:\n  lr: -1\n  momentm: 0.9\ntrain: {batch_size: 0}\nextra: 1\n");
            }),
            "'optimizer.lr': got '-1', expected a number > 0 and <= 10\n  --> t.yaml:2:7\n"
            "error: unknown key 'optimizer.momentm'\n  --> t.yaml:3:3     did you mean 'momentum'? Keys "
            "here: name, lr, "
            "momentum, nesterov, beta1, weight_decay\n"
            "error: 'train.batch_size': got '0', expected an integer >= 1 and <= 65536\n  --> t.yaml:4:21\n"
            "error: unknown key 'extra'\n  --> t.yaml:5:1     Keys here: name, seed, "
            "precision, data, "
            "model, optimizer, ema, patch, train\n"
            "4 errors, nothing was run\n");
}

TEST(Options, ShowsTwentyErrorsAndCountsTheRest) {
  std::string yaml;
  for (int i = 0; i < 5000; ++i) yaml += fmt::format("x{}: 1\n", i);
  const std::string text = error_text([&] { parse_job(yaml); });
  EXPECT_NE(text.find("unknown key 'x19'"), std::string::npos);
  EXPECT_EQ(text.find("unknown key 'x20'"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n(and 4980 more)\n5000 errors, nothing was run\n")) << text;
}

TEST(Options, ReadsEveryKind) {
  const Job job = parse_job(
      "name: 123\nseed: 18446744073709551615\nprecision: {compute: fp16, loss_scale: {init: 1024}}\n"
      "data: {train: one.h5, cache_dir: null, cache_bytes: 1.5GiB, workers: 3, normalize: [{channel: 1, "
      "clip: [-1, 1.5]}, "
      "{}]}\n"
      "model: {name: \"unet3d\", features: [8, 1e1, 0x10], strides: [[1, 1, 1], [2, 2, 2]], tags: solo, "
      "dropout: 0.25}\n"
      "optimizer: {lr: .5, nesterov: true}\nema: {decay: 0.5}\npatch: [16, 32, 64]\n"
      "train: {clip_norm: null, iterations: 800, every: -3}\n");
  EXPECT_EQ(job.name, "123");
  EXPECT_EQ(job.seed, 18446744073709551615u);
  EXPECT_EQ(job.precision.compute, Compute::kFp16);
  EXPECT_EQ(job.precision.loss_scale.init, 1024);
  ASSERT_EQ(job.data.train.size(), 1u);
  EXPECT_EQ(job.data.cache_dir, std::nullopt);
  EXPECT_EQ(job.data.cache_bytes, 1610612736);
  EXPECT_EQ(job.data.workers, 3);
  ASSERT_EQ(job.data.normalize.size(), 2u);
  EXPECT_EQ(job.data.normalize[0].channel, 1);
  EXPECT_EQ(job.data.normalize[0].clip, (std::array<double, 2>{-1, 1.5}));
  EXPECT_EQ(job.data.normalize[1].clip, std::nullopt);
  EXPECT_EQ(job.model.features, (std::vector<std::int64_t>{8, 10, 16}));
  ASSERT_TRUE(job.model.strides);
  EXPECT_EQ(job.model.strides->at(1), (std::array<std::int64_t, 3>{2, 2, 2}));
  EXPECT_EQ(job.model.tags, std::vector<std::string>{"solo"});
  EXPECT_EQ(job.model.dropout, 0.25f);
  EXPECT_EQ(job.optimizer.lr, 0.5);
  EXPECT_TRUE(job.optimizer.nesterov);
  EXPECT_EQ(job.ema->decay, 0.5);
  EXPECT_EQ(job.patch, (std::array<std::int64_t, 3>{16, 32, 64}));
  EXPECT_EQ(job.train.clip_norm, std::nullopt);
  EXPECT_EQ(job.train.iterations, 800);
  EXPECT_EQ(job.train.every, -3);
}

TEST(Options, KeysNotWrittenKeepTheirDefaults) {
  const Job job = parse_job("");
  EXPECT_EQ(job.seed, 1234u);
  EXPECT_EQ(job.data.workers, std::nullopt);
  EXPECT_EQ(job.train.clip_norm, 12);
  EXPECT_EQ(parse_job("data: {workers: auto}").data.workers, std::nullopt);
  EXPECT_FALSE(parse_job("ema: null").ema);
  EXPECT_TRUE(parse_job("ema: {}").ema);
}

TEST(Options, ARuleIsNotAskedWhereTheMapHasErrors) {
  EXPECT_EQ(error_text([] { parse_job("precision: {loss_scale: {min: 1e9, init: x}}"); }),
            "'precision.loss_scale.init': got 'x', expected a number\n  --> t.yaml:1:42\n");
}

// A rule that names its keys waits for no others, and not for those whose names were mistyped.
TEST(Options, ARuleWithKeysIsAskedUnlessTheyAreWrong) {
  const auto text_of = [](const std::string& yaml) {
    int low = 0, high = 1, other = 0;
    const Fields description = Fields()
                                   .integer("low", low, {}, "")
                                   .integer("high", high, {}, "")
                                   .integer("other", other, {}, "")
                                   .check(
                                       [&](ErrorList& errors) {
                                         if (low > high) errors.rule("low", "got more than high");
                                       },
                                       {"low", "high"});
    return error_text([&] { parse_options(parse_yaml_text(yaml, "t.yaml"), description); });
  };
  const std::string rule = "'low': got more than high\n  --> t.yaml:";
  EXPECT_EQ(text_of("low: 2"), rule + "1:1\n");
  EXPECT_EQ(text_of("other: x\nlow: 2"), "'other': got 'x', expected an integer\n  --> t.yaml:1:8\nerror: " +
                                             rule + "2:1\n2 errors, nothing was run\n");
  EXPECT_EQ(text_of("low: 2\nhigh: x"), "'high': got 'x', expected an integer\n  --> t.yaml:2:7\n");
  EXPECT_EQ(text_of("low: 2\nhigg: 3").find(rule), std::string::npos);
  EXPECT_EQ(text_of("low: 2\nhigh:3:").find(rule), std::string::npos);
}

TEST(Options, ErrorsComeByFileAndLine) {
  const auto place = [](const char* name, int rank, int line, int column) {
    return Position{std::make_shared<const ConfigSource>(ConfigSource{name, {}, line > 0, rank}), line,
                    column};
  };
  ErrorList errors;
  errors.add("override", place("command line", 1, 0, 0));
  errors.add("nowhere", {});
  errors.add("inherited", place("base.yaml", -1, 1, 1));
  errors.add("third", place("job.yaml", 0, 2, 3));
  errors.add("second", place("job.yaml", 0, 2, 1));
  errors.add("first", place("job.yaml", 0, 1, 9));
  std::string order;
  for (const std::string& line : errors.lines()) order += line.substr(0, line.find('\n')) + " ";
  EXPECT_EQ(order, "first second third inherited nowhere override ");
}

TEST(Options, KeysAreFoundWhereTheyWereWritten) {
  const ConfigNode root = parse_yaml_text("a: 1\ngroups:\n  - {match: x}\n  - {match: y}\n", "t.yaml");
  ErrorList errors;
  const ErrorList::Scope scope(errors, "", &root);
  EXPECT_EQ(errors.written_at("groups[1].match")->text(), "t.yaml:4:6");
  EXPECT_EQ(errors.written_at("groups[1]")->text(), "t.yaml:4:5");
  for (const char* key : {"b", "a.b", "a[0]", "groups[2]", "groups[1].other"})
    EXPECT_FALSE(errors.written_at(key)) << key;
  errors.rule("groups[1].other", "got none");
  EXPECT_EQ(errors.lines(), std::vector<std::string>{"'groups[1].other': got none\n  --> t.yaml:4:5"});
}

TEST(Options, RequiredKeys) {
  std::string name;
  const Fields description = Fields().text("name", name, "Name").required("name");
  EXPECT_EQ(error_text([&] { parse_options(parse_yaml_text("{}", "t.yaml"), description); }),
            "the key 'name' is missing\n  --> t.yaml:1:1\n");
  parse_options(parse_yaml_text("name: a", "t.yaml"), description);
  EXPECT_EQ(name, "a");
}

// A label map as the data options have it: name -> value or list of values.
TEST(Options, CustomFields) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> labels;
  const Fields description = Fields().custom(
      "labels", "map of name: value or list",
      [&](const ConfigNode& node, ErrorList& errors) {
        if (!node.is_map()) return errors.wrong(node, "a map of names");
        for (const ConfigEntry& entry : node.entries()) {
          std::vector<std::int64_t> values;
          const Fields one = Fields().integers(entry.key, values, {.min = 0}, "");
          ConfigNode map = ConfigNode::map();
          map.set(entry.key, entry.value.is_scalar() ? ConfigNode::list({entry.value}) : entry.value);
          parse_options(map, one, errors);
          labels.emplace_back(entry.key, values);
        }
      },
      [] { return ConfigNode::map(); }, "Names");
  parse_options(parse_yaml_text("labels: {background: 0, hip: [77, 78]}", "t.yaml"), description);
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[1].second, (std::vector<std::int64_t>{77, 78}));
  EXPECT_EQ(
      error_text([&] { parse_options(parse_yaml_text("labels:\n  hip: [77, -1]", "t.yaml"), description); }),
      "'labels.hip[1]': got '-1', expected an integer >= 0\n  --> t.yaml:2:13\n");
}

}  // namespace
}  // namespace tandem::config_test
