// Copies, resize and pooling of the CUDA backend.
#include <limits>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_launch.h"

namespace tandem::cuda {
namespace {

// Calls body.operator()<U>() with the unsigned integer of the dtype's size.
template <class Body>
void with_bytes(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 8:
      return body.template operator()<std::uint64_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    default:
      return body.template operator()<std::uint8_t>();
  }
}

struct MoveAxis {
  std::int64_t size, from, to;
};

// The axes that count, by falling stride of the target: neighbouring indices write neighbouring elements.
std::vector<MoveAxis> ordered_axes(const MoveArgs& args) {
  std::vector<MoveAxis> axes;
  for (int i = 0; i < args.rank; ++i) {
    const auto a = static_cast<std::size_t>(i);
    if (args.size[a] != 1) axes.push_back({args.size[a], args.from_stride[a], args.to_stride[a]});
  }
  std::ranges::stable_sort(axes, std::ranges::greater{}, &MoveAxis::to);
  return axes;
}

// The tables of all axes in device memory.
struct ResizeTables {
  ResizeTables(const Device& device, const std::array<ResizeAxis, 3>& axes) {
    std::vector<std::int32_t> all;
    std::vector<float> all_weights;
    for (const ResizeAxis& axis : axes) {
      for (const auto* column : {&axis.low, &axis.high, &axis.begin, &axis.end})
        all.insert(all.end(), column->begin(), column->end());
      all_weights.insert(all_weights.end(), axis.weight.begin(), axis.weight.end());
    }
    numbers = std::make_unique<Scratch<std::int32_t>>(device, all);
    weights = std::make_unique<Scratch<float>>(device, all_weights);
    const std::int32_t* number = numbers->data();
    const float* weight = weights->data();
    for (std::size_t a = 0; a < 3; ++a) {
      const std::size_t out = axes[a].low.size(), in = axes[a].begin.size();
      table[a] = {number, number + out, number + 2 * out, number + 2 * out + in, weight};
      number += 2 * (out + in);
      weight += out;
    }
  }
  std::unique_ptr<Scratch<std::int32_t>> numbers;
  std::unique_ptr<Scratch<float>> weights;
  ResizeTable table[3];
};

PoolShape pool_shape(const PoolArgs& args) {
  const ConvGeometry& g = args.geometry;
  PoolShape shape{};
  shape.channels = g.in_channels;
  shape.count_padding = args.count_padding;
  for (std::size_t a = 0; a < 3; ++a) {
    shape.in[a] = g.in[a];
    shape.out[a] = g.out[a];
    shape.kernel[a] = g.kernel[a];
    shape.stride[a] = g.stride[a];
    shape.padding[a] = g.padding[a];
  }
  return shape;
}

}  // namespace

void CudaBackend::reorder(const Tensor& x, const Tensor& y, bool to_logical) {
  if (x.numel() == 0) return;
  const Shape& shape = to_logical ? x.shape() : y.shape();  // of the channels-last side
  const std::int64_t batch = shape.batch(), channels = shape.channels();
  const std::int64_t voxels = shape.numel() / (batch * channels);
  with_bytes(x.dtype(), [&]<class U>() {
    Transpose<U> loop{};
    loop.a = to_logical ? voxels : channels;
    loop.b = to_logical ? channels : voxels;
    loop.a_tiles = ceil_divide(loop.a, Transpose<U>::kTile);
    loop.b_tiles = ceil_divide(loop.b, Transpose<U>::kTile);
    loop.x = static_cast<const U*>(x.raw());
    loop.y = static_cast<U*>(y.raw());
    launch(api_, batch * loop.a_tiles * loop.b_tiles, loop);
  });
}

void CudaBackend::move(const MoveArgs& args, const Tensor& x, const Tensor& y) {
  with_bytes(x.dtype(), [&]<class U>() {
    MoveBox<U> loop{};
    loop.count = 1;
    for (const MoveAxis& axis : ordered_axes(args)) {
      loop.count *= axis.size;
      loop.size[loop.rank] = axis.size;
      loop.from_stride[loop.rank] = axis.from;
      loop.to_stride[loop.rank++] = axis.to;
    }
    if (loop.count == 0) return;
    loop.from = static_cast<const U*>(x.raw()) + args.from_offset;
    loop.to = static_cast<U*>(y.raw()) + args.to_offset;
    launch(api_, loop);
  });
}

void CudaBackend::resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  const ResizeTables tables(device_, *args.axes);
  with_type(x, [&]<class T>() {
    Resize<T> loop{};
    loop.count = y.numel();
    loop.channels = y.channels();
    loop.adjoint = args.adjoint;
    for (std::size_t a = 0; a < 3; ++a) {
      loop.x_size[a] = x.shape().spatial()[a];
      loop.y_size[a] = y.shape().spatial()[a];
      loop.axis[a] = tables.table[a];
    }
    loop.x = elements<T>(x);
    loop.y = elements<T>(y);
    launch(api_, loop);
  });
}

void CudaBackend::depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias,
                                 const Tensor& volume, bool inverse) {
  if (volume.numel() == 0) return;
  with_type_or_mixed({blocks, volume}, [&]<class T>() {
    DepthToSpace<T> loop{};
    loop.count = volume.numel();
    loop.channels = volume.channels();
    for (std::size_t a = 0; a < 3; ++a) {
      loop.size[a] = g.in[a];
      loop.stride[a] = g.stride[a];
    }
    loop.inverse = inverse;
    loop.blocks = elements<T>(blocks);
    loop.volume = elements<T>(volume);
    loop.bias = data_or_null<float>(bias);
    launch(api_, loop);
  });
}

void CudaBackend::pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y,
                               const Tensor& indices) {
  if (y.numel() == 0) return;
  with_type(x, [&]<class T>() {
    const PoolShape shape = pool_shape(args);
    if (args.max)
      launch(api_,
             MaxPool<T>{y.numel(), shape, elements<T>(x), elements<T>(y), indices.data<std::int32_t>()});
    else
      launch(api_, AveragePool<T>{y.numel(), shape, elements<T>(x), elements<T>(y)});
  });
}

void CudaBackend::pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                                const Tensor& dx) {
  if (dx.numel() == 0) return;
  with_type(dx, [&]<class T>() {
    const std::int32_t* winners = args.max ? indices.data<std::int32_t>() : nullptr;
    launch(api_, PoolGradient<T>{dx.numel(), pool_shape(args), elements<T>(dx), elements<T>(dy), winners});
  });
}

}  // namespace tandem::cuda
