#!/usr/bin/env python3
"""Writes cicek.ref: the logits of the original 3D U-Net (Cicek et al. 2016, figure 2), computed with numpy alone.

    python3 tests/refs/make_cicek_refs.py        # about a minute on one core, 1 GB

Layers as in the paper: two valid 3^3 convolutions with batch norm (statistics of the batch) and ReLU per stage, 2^3
max pooling, 2^3 transposed convolutions of stride 2, the middle of the encoder's output in front of what comes up,
1^3 head. Weights and image are `filled`, parameter i with stream i in the order of the module, so that nothing but
the result is stored. The sizes of the volume differ, so that axes cannot be mixed up. The layout of the file is that
of make_refs.py.
"""

import pathlib
import struct

import numpy as np

SHAPE = (1, 2, 92, 100, 108)
CLASSES = 3


def filled(count, stream, bound):
    """make_refs.py's: values in [-bound, bound) from 24 bits of an integer hash."""
    x = np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(stream * 40503 + 12345)
    x = x & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return ((x >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1.0) * bound


class Parameters:
    """The next parameter of a shape, as tests/layers fills it."""

    def __init__(self):
        self.stream = 0

    def next(self, *shape, offset=0.0):
        count = int(np.prod(shape))
        fan_in = max(count // shape[0], 1)
        bound = 2.0 ** -np.rint(np.log2(fan_in) / 2) if len(shape) > 1 else 0.25
        values = filled(count, self.stream, bound).reshape(shape) + offset
        self.stream += 1
        return values


def conv(x, weight, bias):
    """Valid: x [D, H, W, C], weight [K, C, d, h, w]."""
    taps = weight.shape[2:]
    size = tuple(n - t + 1 for n, t in zip(x.shape, taps))
    y = np.zeros(size + (weight.shape[0],), np.float32) + bias.astype(np.float32)
    for tap in np.ndindex(*taps):
        part = x[tap[0] : tap[0] + size[0], tap[1] : tap[1] + size[1], tap[2] : tap[2] + size[2]]
        y += part @ weight[(slice(None), slice(None)) + tap].T.astype(np.float32)
    return y


def norm_relu(x, scale, shift):
    mean = x.mean((0, 1, 2), dtype=np.float64)
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    y = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift
    return np.maximum(y, 0).astype(np.float32)


def double_conv(x, middle, out, parameters):
    for channels in (middle, out):
        weight, bias = parameters.next(channels, x.shape[3], 3, 3, 3), parameters.next(channels)
        x = conv(x, weight, bias)
        scale, shift = parameters.next(channels, offset=1.0), parameters.next(channels)
        x = norm_relu(x, scale, shift)
    return x


def pool(x):
    d, h, w, c = x.shape
    return x.reshape(d // 2, 2, h // 2, 2, w // 2, 2, c).max((1, 3, 5))


def up(x, parameters):
    channels = x.shape[3]
    weight = parameters.next(channels, channels, 2, 2, 2).astype(np.float32)
    y = np.zeros(tuple(2 * n for n in x.shape[:3]) + (channels,), np.float32)
    for i, j, k in np.ndindex(2, 2, 2):
        y[i::2, j::2, k::2] = x @ weight[:, :, i, j, k]
    return y


def middle_of(x, size):
    begin = [(n - m) // 2 for n, m in zip(x.shape, size)]
    return x[tuple(slice(b, b + m) for b, m in zip(begin, size))]


def logits_of(image):
    parameters = Parameters()
    skips, x = [], image
    for stage in range(4):
        if stage > 0:
            x = pool(x)
        x = double_conv(x, 32 << stage, 64 << stage, parameters)
        skips.append(x)
    for skip, channels in zip(skips[2::-1], (256, 128, 64)):
        x = up(x, parameters)
        x = np.concatenate([middle_of(skip, x.shape[:3]), x], axis=3)
        x = double_conv(x, channels, channels, parameters)
    return conv(x, parameters.next(CLASSES, 64, 1, 1, 1), parameters.next(CLASSES))


def main():
    image = filled(int(np.prod(SHAPE)), 500, 2.0).reshape(SHAPE)[0].transpose(1, 2, 3, 0)
    logits = logits_of(np.ascontiguousarray(image, dtype=np.float32)).transpose(3, 0, 1, 2)[None]
    path = pathlib.Path(__file__).parent / "cicek.ref"
    with open(path, "wb") as file:
        file.write(b"TDREF1\n\0")
        for name, values in (("shape", np.array(SHAPE)), ("logits", logits)):
            file.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", values.ndim))
            file.write(struct.pack(f"<{values.ndim}q", *values.shape) + values.astype("<f8").tobytes())
    print(path.name, path.stat().st_size, "bytes; logits", logits.shape, logits.min(), logits.max())


if __name__ == "__main__":
    main()
