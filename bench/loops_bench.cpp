// Bandwidth of the CPU loops beside a copy of the same tensor, at [2, 16, 48, 48, 48]: bytes of all operands
// read and written, each counted once a pass. Best of the repetitions; TANDEM_ISA chooses the level.
//   bench_loops --benchmark_repetitions=5 --benchmark_report_aggregates_only=false
#include <benchmark/benchmark.h>

#include <array>

#include "core/backends/cpu/cpu_loops.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

const Shape kShape{2, 16, 48, 48, 48};
const Shape kLogits{2, 6, 48, 48, 48};

const CpuLoops& loops() {
  compute_threads();
  return cpu_loops(cpu_isa());
}

Tensor filled(const Shape& shape, DType dtype) {
  const Tensor values(shape, DType::kF32), t(shape, dtype);
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.data<float>()[i] = static_cast<float>((i * 2654435761u >> 8) % 2001) * 1e-3f - 1.0f;
  loops().map({MapKernel::kCopy}, std::array{values}, t);
  return t;
}

void set_bytes(benchmark::State& state, std::int64_t passes, const Tensor& t) {
  state.SetBytesProcessed(state.iterations() * passes * t.numel() *
                          static_cast<std::int64_t>(size_of(t.dtype())));
}

DType dtype_of(const benchmark::State& state) { return static_cast<DType>(state.range(0)); }

void bench_map(benchmark::State& state, MapKernel kernel, int inputs, bool convert = false) {
  const Tensor x = filled(kShape, dtype_of(state)), z = filled(kShape, dtype_of(state));
  const Tensor y(kShape, convert ? DType::kF32 : dtype_of(state));
  const std::array operands{x, z};
  for (auto _ : state)
    loops().map({kernel, {.a = 0.01}}, std::span(operands.data(), static_cast<std::size_t>(inputs)), y);
  const auto bytes = [](const Tensor& t) {
    return t.numel() * static_cast<std::int64_t>(size_of(t.dtype()));
  };
  state.SetBytesProcessed(state.iterations() * (inputs * bytes(x) + bytes(y)));
}
void copy(benchmark::State& state) { bench_map(state, MapKernel::kCopy, 1); }
void widen(benchmark::State& state) { bench_map(state, MapKernel::kCopy, 1, true); }
void leaky_relu(benchmark::State& state) { bench_map(state, MapKernel::kLeakyRelu, 1); }
void add(benchmark::State& state) { bench_map(state, MapKernel::kAdd, 2); }

struct NormData {
  explicit NormData(DType dtype)
      : x(filled(kShape, dtype)),
        dy(filled(kShape, dtype)),
        y(kShape, dtype),
        t{filled(Shape{16}, DType::kF32),    filled(Shape{16}, DType::kF32),
          Tensor(Shape{2, 16}, DType::kF32), Tensor(Shape{2, 16}, DType::kF32),
          filled(Shape{16}, DType::kF32),    filled(Shape{16}, DType::kF32)} {}
  Tensor x, dy, y;
  NormTensors t;
  NormArgs args{.activation = Activation::kLeakyRelu};
};
void norm_forward(benchmark::State& state) {
  const NormData d(dtype_of(state));
  for (auto _ : state) loops().norm_forward(d.args, d.x, d.t, d.y);
  set_bytes(state, 3, d.x);
}
void norm_backward(benchmark::State& state) {
  const NormData d(dtype_of(state));
  loops().norm_forward(d.args, d.x, d.t, d.y);
  for (auto _ : state) loops().norm_backward(d.args, d.dy, d.x, d.t, d.y);
  set_bytes(state, 5, d.x);
}

void reduce_rows(benchmark::State& state) {
  const Tensor x = filled(kShape, dtype_of(state)), out = filled(Shape{16}, DType::kF32);
  for (auto _ : state) loops().reduce_rows(x, Tensor(), out);
  set_bytes(state, 1, x);
}

PoolArgs pool_args(bool max) {
  PoolArgs args{.max = max};
  args.geometry = {.batch = 2,
                   .in_channels = 16,
                   .out_channels = 16,
                   .in = {48, 48, 48},
                   .out = {24, 24, 24},
                   .kernel = {2, 2, 2},
                   .stride = {2, 2, 2}};
  return args;
}
void bench_pool(benchmark::State& state, bool max, bool backward) {
  const Tensor x = filled(kShape, dtype_of(state)), y = filled(Shape{2, 16, 24, 24, 24}, dtype_of(state));
  const Tensor indices(y.shape(), DType::kI32);
  const PoolArgs args = pool_args(max);
  loops().pool_forward(args, x, y, max ? indices : Tensor());
  for (auto _ : state) {
    if (backward)
      loops().pool_backward(args, y, max ? indices : Tensor(), x);
    else
      loops().pool_forward(args, x, y, max ? indices : Tensor());
  }
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  state.SetBytesProcessed(state.iterations() * (x.numel() * bytes + y.numel() * (bytes + (max ? 4 : 0))));
}
void max_pool(benchmark::State& state) { bench_pool(state, true, false); }
void max_pool_backward(benchmark::State& state) { bench_pool(state, true, true); }
void average_pool(benchmark::State& state) { bench_pool(state, false, false); }
void average_pool_backward(benchmark::State& state) { bench_pool(state, false, true); }

void softmax(benchmark::State& state) {
  const Tensor x = filled(kLogits, dtype_of(state)), y(kLogits, dtype_of(state));
  for (auto _ : state) loops().softmax_forward({}, x, y);
  set_bytes(state, 2, x);
}
struct LossData {
  explicit LossData(DType dtype)
      : t{filled(kLogits, dtype), Tensor(Shape{2, 48, 48, 48}, DType::kI32),
          Tensor(Shape{2, 20}, DType::kF64)},
        loss(Shape{1}, DType::kF32),
        seed(filled(Shape{1}, DType::kF32)),
        dlogits(kLogits, dtype) {
    for (std::int64_t i = 0; i < t.labels.numel(); ++i)
      t.labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i / 7 % 6);
  }
  LossTensors t;
  Tensor loss, seed, dlogits;
};
void dice_ce(benchmark::State& state) {
  const LossData d(dtype_of(state));
  for (auto _ : state) loops().segmentation_loss({}, d.t, d.loss);
  set_bytes(state, 1, d.t.logits);
}
void dice_ce_backward(benchmark::State& state) {
  const LossData d(dtype_of(state));
  loops().segmentation_loss({}, d.t, d.loss);
  for (auto _ : state) loops().segmentation_loss_backward({}, d.t, d.seed, d.dlogits);
  set_bytes(state, 2, d.t.logits);
}

void depth_to_space(benchmark::State& state) {
  const Tensor volume(kShape, dtype_of(state)), bias = filled(Shape{16}, DType::kF32);
  const Tensor blocks = filled(Shape{2 * 24 * 24 * 24, 128}, dtype_of(state));
  const ConvGeometry g{.batch = 2,
                       .in_channels = 16,
                       .out_channels = 16,
                       .in = {24, 24, 24},
                       .out = {48, 48, 48},
                       .kernel = {2, 2, 2},
                       .stride = {2, 2, 2}};
  for (auto _ : state) loops().depth_to_space(g, blocks, bias, volume, false);
  set_bytes(state, 2, volume);
}
void reorder(benchmark::State& state) {
  const Tensor x = filled(kShape, dtype_of(state)), y(Shape{kShape.numel()}, dtype_of(state));
  for (auto _ : state) loops().reorder(x, y, true);
  set_bytes(state, 2, x);
}

constexpr std::int64_t kParameters = 4 << 20;
void gradient_check(benchmark::State& state) {
  const Tensor g = filled(Shape{kParameters}, DType::kF32);
  for (auto _ : state) {
    GradientCheck check;
    loops().gradient_check(g, StepState{}, check);
    benchmark::DoNotOptimize(check);
  }
  set_bytes(state, 1, g);
}
void bench_optimizer(benchmark::State& state, OptimizerKind kind) {
  OptimizerArgs args{.kind = kind, .constants = {.momentum = 0.9, .nesterov = true}};
  for (Tensor* t : {&args.master, &args.gradient, &args.moment1, &args.moment2})
    *t = filled(Shape{kParameters}, DType::kF32);
  if (kind == OptimizerKind::kAdam)
    loops().map({MapKernel::kMul}, std::array{args.moment2, args.moment2}, args.moment2);
  if (dtype_of(state) != DType::kF32) args.copy = filled(Shape{kParameters}, dtype_of(state));
  StepState step;
  step.lr = 1e-6f;
  for (auto _ : state) loops().optimizer_step(args, step);
  const int floats = kind == OptimizerKind::kAdam ? 7 : 5;
  state.SetBytesProcessed(state.iterations() * kParameters * (4 * floats + (args.copy.defined() ? 2 : 0)));
}
void sgd(benchmark::State& state) { bench_optimizer(state, OptimizerKind::kSgd); }
void adam(benchmark::State& state) { bench_optimizer(state, OptimizerKind::kAdam); }

void dtypes(benchmark::internal::Benchmark* bench) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) bench->Arg(static_cast<int>(dtype));
  bench->ArgName("dtype")->Unit(benchmark::kMillisecond)->UseRealTime();
}

#define TD_LOOP_BENCH(F) BENCHMARK(F)->Apply(dtypes)
TD_LOOP_BENCH(copy);
TD_LOOP_BENCH(widen);
TD_LOOP_BENCH(leaky_relu);
TD_LOOP_BENCH(add);
TD_LOOP_BENCH(norm_forward);
TD_LOOP_BENCH(norm_backward);
TD_LOOP_BENCH(reduce_rows);
TD_LOOP_BENCH(max_pool);
TD_LOOP_BENCH(max_pool_backward);
TD_LOOP_BENCH(average_pool);
TD_LOOP_BENCH(average_pool_backward);
TD_LOOP_BENCH(softmax);
TD_LOOP_BENCH(dice_ce);
TD_LOOP_BENCH(dice_ce_backward);
TD_LOOP_BENCH(depth_to_space);
TD_LOOP_BENCH(reorder);
TD_LOOP_BENCH(gradient_check);
TD_LOOP_BENCH(sgd);
TD_LOOP_BENCH(adam);

}  // namespace
}  // namespace tandem

BENCHMARK_MAIN();
