// A checkpoint that the train tests save, load and damage; and a way to run code in a process that may die.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <numeric>
#include <vector>

#include "tests/data/test_files.h"
#include "train/checkpoint.h"

namespace tandem::testing {

// 0, 1, 2, ... + start, in logical order.
inline Tensor counting(const Shape& shape, DType dtype, double start = 0) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), start);
  return Tensor::from_values(shape, values, dtype);
}

// Every field differs from its default, and from the same field of another step.
inline CheckpointContent sample_content(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.epoch = step / 10 + 1;
  content.epoch_position = step % 10 + 1;
  content.total_steps = 800;
  content.state = {
      .scale = 1024, .inverse = 1.0f / 1024, .clip = 0.5f, .lr = 0.1f, .event = StepEvent::kOverflow};
  content.state.weight_overflow = 1;
  content.state.grad_norm = 0.1;
  content.state.good_steps = 7;
  content.state.hysteresis_left = 2;
  content.state.consecutive_skips = 3;
  content.state.skips_at_min = 4;
  content.state.consecutive_bad_loss = 5;
  content.state.gradient_amax = 6.5f;
  content.state.interval_peak = 8;
  content.state.gradient_peak = 8.5f;
  content.state.sanitized = 1;
  content.state.withheld_growths = 9;
  content.state.early_backoffs = 10;
  content.state.verdict = ScalerVerdict::kNonfiniteLoss;
  content.state.attempted = step;
  content.state.applied = step - 1;
  content.state.skipped_overflow = std::int64_t{1} << 40;
  content.state.skipped_forward = 11;
  content.state.last_overflow_step = step - 2;
  content.early_stop = {.best = 0.25, .improved = 3, .bad = 2, .last_step = step};
  content.plateau = {.watch = {.best = 0.5, .improved = 4, .bad = 1, .last_step = step + 1},
                     .cooldown_left = 2,
                     .factor = 0.01};
  content.best = {{step, 0.75}};
  content.tensors = {{"model/enc0.conv1.weight", counting({2, 3, 2, 1, 2}, DType::kF32, 0.5)},
                     {"model/enc0.conv1.bias", counting({2}, DType::kF32, static_cast<double>(step))},
                     {"optimizer/exp_avg/enc0.conv1.bias", counting({2}, DType::kF32, -1)}};
  content.config_yaml = "name: test\nseed: 1\n";
  content.environment_json = R"({"isa": "amx", "threads": 2})";
  content.engine_choices = "conv 1";
  return content;
}

// Status of a child process that ran `body`: its value or what killed it (128 + signal).
inline int status_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (const Error& error) {
      status = exit_code(error.kind());
    }
    ::_exit(status);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tandem::testing
