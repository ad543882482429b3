// oneDNN's primitives: descriptors from a geometry, the primitive cache, execution.
#include "core/backends/cpu/onednn.h"

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string>

#include "core/backends/cpu/packed_weights.h"
#include "core/backends/cpu/scratch.h"
#include "core/base/error.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

using dnnl::memory;

dnnl::cpu_isa dnnl_isa(const CpuTarget& target) {
  switch (target.isa) {
    case CpuIsa::kV2:
      return dnnl::cpu_isa::sse41;
    case CpuIsa::kV3:
      return dnnl::cpu_isa::avx2;
    case CpuIsa::kV4:
      return target.avx512_bf16 ? dnnl::cpu_isa::avx512_core_bf16 : dnnl::cpu_isa::avx512_core;
    case CpuIsa::kAmx:
      return dnnl::cpu_isa::avx512_core_amx;
  }
  return dnnl::cpu_isa::sse41;
}

memory::data_type data_type(DType dtype) {
  check_internal(dtype == DType::kF32 || dtype == DType::kBF16, "oneDNN computes on F32 and BF16 only");
  return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::dims last_axes(const std::array<std::int64_t, 3>& triple, int rank) {
  return {triple.end() - rank, triple.end()};
}

// [N, C, spatial] stored channels-last; `any` format where the primitive may choose.
memory::desc data_desc(const ConvGeometry& g, bool input, DType dtype) {
  const std::int64_t channels = input ? g.in_channels : g.out_channels;
  memory::dims dims{g.batch, channels};
  const memory::dims spatial = last_axes(input ? g.in : g.out, g.spatial_rank);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  const memory::format_tag tags[] = {memory::format_tag::nwc, memory::format_tag::nhwc,
                                     memory::format_tag::ndhwc};
  return {dims, data_type(dtype), tags[g.spatial_rank - 1]};
}

memory::dims weight_dims(const ConvGeometry& g) {
  memory::dims dims;
  if (g.groups > 1) dims.push_back(g.groups);
  dims.insert(dims.end(), {g.out_channels / g.groups, g.in_channels / g.groups});
  const memory::dims kernel = last_axes(g.kernel, g.spatial_rank);
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return dims;
}

// [K, taps, C/groups] as strides of [G, K/G, C/G, taps].
memory::desc plain_weights(const ConvGeometry& g, DType dtype) {
  const std::int64_t c = g.in_channels / g.groups;
  memory::dims strides;
  if (g.groups > 1) strides.push_back(g.out_channels / g.groups * g.taps() * c);
  strides.insert(strides.end(), {g.taps() * c, 1});
  std::int64_t step = g.taps() * c;
  for (int axis = 3 - g.spatial_rank; axis < 3; ++axis) {
    step /= g.kernel[static_cast<std::size_t>(axis)];
    strides.push_back(step);
  }
  return {weight_dims(g), data_type(dtype), strides};
}

struct Window {
  memory::dims stride, dilation, low, high;
};

// oneDNN counts dilation from 0 and wants the high padding, which `out` fixes (negative where the stride
// leaves a rest).
Window window_of(const ConvGeometry& g) {
  Window window;
  for (int axis = 3 - g.spatial_rank; axis < 3; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t reach = (g.out[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1;
    window.stride.push_back(g.stride[i]);
    window.dilation.push_back(g.dilation[i] - 1);
    window.low.push_back(g.padding[i]);
    window.high.push_back(reach - g.in[i] - g.padding[i]);
  }
  return window;
}

// FP32 stays FP32, sums are FP32, and the scratchpad is ours: whatever the environment says.
dnnl::primitive_attr strict_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

struct Plan {
  dnnl::primitive primitive;
  memory::desc weights, scratchpad;
};

// Goes on to an implementation by matmul or by loops unless all are trusted. The last one is by loops.
template <class PrimitiveDesc>
void skip_untrusted(PrimitiveDesc& pd, const ConvGeometry& g) {
  if (has_usual_window(g)) return;
  const auto is_trusted = [&] {
    const std::string name = pd.impl_info_str();
    return name.find("gemm") != std::string::npos || name.starts_with("ref");
  };
  while (!is_trusted())
    check_internal(pd.next_impl(), "oneDNN has neither a matmul nor loops for this convolution");
}

template <class PrimitiveDesc>
Plan plan_of(const PrimitiveDesc& pd, const dnnl::primitive& primitive, const memory::desc& weights) {
  return {primitive, weights, pd.scratchpad_desc()};
}

Plan make_conv_plan(const dnnl::engine& engine, const OneDnnConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const bool weights_pass = conv.pass == ConvPass::kBackwardWeights;
  const DType x_type = conv.pass == ConvPass::kBackwardData ? conv.result : conv.operand;
  const DType y_type = conv.pass == ConvPass::kForward ? conv.result : conv.operand;
  const memory::desc x = data_desc(g, true, x_type), y = data_desc(g, false, y_type);
  const memory::desc w(weight_dims(g), data_type(weights_pass ? DType::kF32 : conv.operand),
                       memory::format_tag::any);
  const Window window = window_of(g);
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto training = dnnl::prop_kind::forward_training;
  const dnnl::primitive_attr attributes = strict_attributes();
  if (conv.pass == ConvPass::kForward) {
    const memory::desc bias =
        conv.bias ? memory::desc({g.out_channels}, memory::data_type::f32, memory::format_tag::a)
                  : memory::desc();
    dnnl::convolution_forward::primitive_desc pd(engine, training, direct, x, w, bias, y, window.stride,
                                                 window.dilation, window.low, window.high, attributes);
    skip_untrusted(pd, g);
    return plan_of(pd, dnnl::convolution_forward(pd), pd.weights_desc());
  }
  // The hint wants dtypes that a forward pass supports: the operand's.
  const memory::desc hint_w(weight_dims(g), data_type(conv.operand), memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc hint(
      engine, training, direct, data_desc(g, true, conv.operand), hint_w, data_desc(g, false, conv.operand),
      window.stride, window.dilation, window.low, window.high, attributes);
  if (conv.pass == ConvPass::kBackwardData) {
    dnnl::convolution_backward_data::primitive_desc pd(
        engine, direct, x, w, y, window.stride, window.dilation, window.low, window.high, hint, attributes);
    skip_untrusted(pd, g);
    return plan_of(pd, dnnl::convolution_backward_data(pd), pd.weights_desc());
  }
  dnnl::convolution_backward_weights::primitive_desc pd(
      engine, direct, x, w, y, window.stride, window.dilation, window.low, window.high, hint, attributes);
  skip_untrusted(pd, g);
  return plan_of(pd, dnnl::convolution_backward_weights(pd), pd.diff_weights_desc());
}

memory::desc matrix_desc(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                         DType dtype) {
  return {{rows, columns}, data_type(dtype), transposed ? memory::dims{1, ld} : memory::dims{ld, 1}};
}

Plan make_gemm_plan(const dnnl::engine& engine, const OneDnnGemm& gemm) {
  dnnl::primitive_attr attributes = strict_attributes();
  if (gemm.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc pd(
      engine, matrix_desc(gemm.m, gemm.k, gemm.lda, gemm.transpose_a, gemm.operand),
      matrix_desc(gemm.k, gemm.n, gemm.ldb, gemm.transpose_b, gemm.operand),
      matrix_desc(gemm.m, gemm.n, gemm.ldc, false, gemm.result), attributes);
  return plan_of(pd, dnnl::matmul(pd), memory::desc());
}

CacheKey key_of(const OneDnnConv& conv) {
  return cache_key(conv.geometry, {0, static_cast<int>(conv.pass), static_cast<int>(conv.operand),
                                   static_cast<int>(conv.result), conv.bias, compute_threads()});
}

CacheKey key_of(const OneDnnGemm& g) {
  return {1,
          g.m,
          g.n,
          g.k,
          g.transpose_a,
          g.transpose_b,
          g.accumulate,
          g.lda,
          g.ldb,
          g.ldc,
          static_cast<int>(g.operand),
          static_cast<int>(g.result),
          compute_threads()};
}

// Runs `body`, turning oneDNN's exception into ours with `what` and the operand's description.
template <class Body>
auto guarded(const char* what, const std::string& description, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    throw Error(
        memory ? ErrorKind::kResource : ErrorKind::kInternal,
        fmt::format("[{}] oneDNN: got '{}' (status {}), expected success, for {}", what, error.what(),
                    static_cast<int>(error.status), description),
        memory ? "Make the batch or the patch smaller." : "This is a bug: report the geometry above.");
  }
}

std::string describe(const OneDnnConv& conv) {
  return fmt::format("{} in {}", to_string(conv.geometry), name(conv.operand));
}

std::string describe(const OneDnnGemm& g) {
  return fmt::format("[{}, {}] x [{}, {}] in {}", g.m, g.k, g.k, g.n, name(g.operand));
}

}  // namespace

bool has_usual_window(const ConvGeometry& g) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t reach = (g.kernel[i] - 1) * g.dilation[i] + 1, stride = g.stride[i];
    if (stride > g.kernel[i] || 2 * g.padding[i] > reach - 1 || g.in[i] < reach + stride - 1) return false;
  }
  return true;
}

std::string to_string(const ConvGeometry& g) {
  // Not by Shape, which refuses what a wrong geometry may hold.
  const auto axes = [&](const std::array<std::int64_t, 3>& triple, const std::string& leading = "") {
    std::string text = "[" + leading;
    for (int axis = 3 - g.spatial_rank; axis < 3; ++axis)
      text += fmt::format("{}{}", text == "[" ? "" : ", ", triple[static_cast<std::size_t>(axis)]);
    return text + "]";
  };
  return fmt::format("{} -> {}, kernel {}, stride {}, padding {}, dilation {}, groups {}",
                     axes(g.in, fmt::format("{}, {}", g.batch, g.in_channels)),
                     axes(g.out, fmt::format("{}, {}", g.batch, g.out_channels)), axes(g.kernel),
                     axes(g.stride), axes(g.padding), axes(g.dilation), g.groups);
}

struct OneDnn::State {
  static constexpr std::size_t kMaxPlans = 1024;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::mutex mutex;
  std::map<CacheKey, std::shared_ptr<const Plan>> plans;

  template <class Description>
  std::shared_ptr<const Plan> plan(const Description& description) {
    const std::lock_guard lock(mutex);
    if (plans.size() >= kMaxPlans) plans.clear();  // shapes that keep changing: start over
    std::shared_ptr<const Plan>& plan = plans[key_of(description)];
    if (!plan) {
      if constexpr (std::is_same_v<Description, OneDnnConv>)
        plan = std::make_shared<const Plan>(make_conv_plan(engine, description));
      else
        plan = std::make_shared<const Plan>(make_gemm_plan(engine, description));
    }
    return plan;
  }

  // oneDNN takes non-const pointers for inputs too; it does not write them.
  memory view(const memory::desc& desc, const void* data) { return {desc, engine, const_cast<void*>(data)}; }

  void run(const Plan& plan, std::unordered_map<int, memory> arguments) {
    const Scratch scratchpad(plan.scratchpad.get_size());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, view(plan.scratchpad, scratchpad.data()));
    plan.primitive.execute(stream, arguments);
    stream.wait();
  }

  // dst = src in another order, or dst += src.
  void reorder(const memory& from, const memory& to, bool accumulate) {
    dnnl::primitive_attr attributes = strict_attributes();
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::reorder::primitive_desc pd(from, to, attributes);
    const Scratch scratchpad(pd.scratchpad_desc().get_size());
    dnnl::reorder(pd).execute(stream, {{DNNL_ARG_FROM, from},
                                       {DNNL_ARG_TO, to},
                                       {DNNL_ARG_SCRATCHPAD, view(pd.scratchpad_desc(), scratchpad.data())}});
    stream.wait();
  }
};

OneDnn::OneDnn(const CpuTarget& target) {
  // Refused once a primitive exists or by a build without run-time dispatch; then the earlier choice stands.
  dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(dnnl_isa(target)));
  dnnl_set_cpu_isa_hints(dnnl_cpu_isa_no_hints);
  state_ = guarded("device", "the CPU engine", [] { return std::make_unique<State>(); });
}

OneDnn::~OneDnn() = default;

std::size_t OneDnn::packed_bytes(const OneDnnConv& conv) {
  return guarded("conv", describe(conv), [&] { return state_->plan(conv)->weights.get_size(); });
}

void OneDnn::pack_weights(const OneDnnConv& conv, const void* weights, void* packed) {
  guarded("conv", describe(conv), [&] {
    const auto plan = state_->plan(conv);
    state_->reorder(state_->view(plain_weights(conv.geometry, conv.operand), weights),
                    state_->view(plan->weights, packed), false);
  });
}

void OneDnn::forward(const OneDnnConv& conv, const void* x, const void* packed, const float* bias, void* y) {
  guarded("conv", describe(conv), [&] {
    const ConvGeometry& g = conv.geometry;
    const auto plan = state_->plan(conv);
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, state_->view(data_desc(g, true, conv.operand), x)},
        {DNNL_ARG_WEIGHTS, state_->view(plan->weights, packed)},
        {DNNL_ARG_DST, state_->view(data_desc(g, false, conv.result), y)}};
    if (conv.bias)
      arguments.emplace(
          DNNL_ARG_BIAS,
          state_->view(memory::desc({g.out_channels}, memory::data_type::f32, memory::format_tag::a), bias));
    state_->run(*plan, std::move(arguments));
  });
}

void OneDnn::backward_data(const OneDnnConv& conv, const void* dy, const void* packed, void* dx) {
  guarded("conv", describe(conv), [&] {
    const ConvGeometry& g = conv.geometry;
    const auto plan = state_->plan(conv);
    state_->run(*plan, {{DNNL_ARG_DIFF_DST, state_->view(data_desc(g, false, conv.operand), dy)},
                        {DNNL_ARG_WEIGHTS, state_->view(plan->weights, packed)},
                        {DNNL_ARG_DIFF_SRC, state_->view(data_desc(g, true, conv.result), dx)}});
  });
}

void OneDnn::backward_weights(const OneDnnConv& conv, const void* x, const void* dy, float* dw) {
  guarded("conv", describe(conv), [&] {
    const ConvGeometry& g = conv.geometry;
    const auto plan = state_->plan(conv);
    const Scratch gradient(plan->weights.get_size());
    const memory packed = state_->view(plan->weights, gradient.data());
    state_->run(*plan, {{DNNL_ARG_SRC, state_->view(data_desc(g, true, conv.operand), x)},
                        {DNNL_ARG_DIFF_DST, state_->view(data_desc(g, false, conv.operand), dy)},
                        {DNNL_ARG_DIFF_WEIGHTS, packed}});
    state_->reorder(packed, state_->view(plain_weights(g, DType::kF32), dw), true);
  });
}

void OneDnn::gemm(const OneDnnGemm& gemm, const void* a, const void* b, void* c) {
  guarded("gemm", describe(gemm), [&] {
    const auto plan = state_->plan(gemm);
    state_->run(*plan,
                {{DNNL_ARG_SRC,
                  state_->view(matrix_desc(gemm.m, gemm.k, gemm.lda, gemm.transpose_a, gemm.operand), a)},
                 {DNNL_ARG_WEIGHTS,
                  state_->view(matrix_desc(gemm.k, gemm.n, gemm.ldb, gemm.transpose_b, gemm.operand), b)},
                 {DNNL_ARG_DST, state_->view(matrix_desc(gemm.m, gemm.n, gemm.ldc, false, gemm.result), c)}});
  });
}

std::size_t OneDnn::cached_primitives() const {
  const std::lock_guard lock(state_->mutex);
  return state_->plans.size();
}

}  // namespace tandem
