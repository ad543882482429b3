#!/usr/bin/env python3
"""Writes data.ref: what scikit-image, SciPy and scikit-learn compute for tests/data.

    python3 tests/refs/make_data_refs.py        # needs numpy, scipy, scikit-image, scikit-learn

The committed file was made with scipy 1.17, scikit-image 0.26, scikit-learn 1.9. The format is that of make_refs.py.
The resampling below is nnU-Net v2's rule written down anew: resize(order=3, mode='edge', anti_aliasing=False); slices
apart along an anisotropic axis with the nearest slice; per class >= 0.5 for labels.
"""
import pathlib
import struct

import numpy as np
from scipy import ndimage
from skimage.transform import resize
from sklearn.model_selection import KFold

ENTRIES = []


def add(name, values):
    ENTRIES.append((name, np.ascontiguousarray(np.asarray(values, dtype=np.float64))))


def image(data, shape, axis=None, order=3):
    if axis is None:
        return resize(data, shape, order, cval=0, mode="edge", anti_aliasing=False)
    flat = [shape[a] for a in range(3) if a != axis]
    slices = [resize(np.take(data, i, axis), flat, order, cval=0, mode="edge", anti_aliasing=False)
              for i in range(data.shape[axis])]
    stack = np.stack(slices, axis)
    rows = data.shape[axis] / shape[axis] * (np.arange(shape[axis]) + 0.5) - 0.5
    return ndimage.map_coordinates(stack, np.stack(np.meshgrid(*[rows if a == axis else np.arange(shape[a]) for a in range(3)], indexing="ij")),
                                   order=0, mode="nearest")


def classes(labels, shape, axis=None):
    result = np.zeros(shape)
    for c in np.unique(labels):
        result[image((labels == c).astype(float), shape, axis, order=1) >= 0.5] = c
    return result


rng = np.random.default_rng(7)
data = np.round(rng.normal(size=(7, 9, 8)) * 64) / 64
labels = rng.integers(0, 4, (7, 9, 8))
add("image", data)
add("labels", labels)
for name, shape, axis in (("up", (11, 14, 13), None), ("down", (4, 5, 6), None), ("separate", (5, 12, 10), 0),
                          ("separate_x", (9, 7, 11), 2), ("half", (7, 9, 4), None)):
    add(name + "/image", image(data, shape, axis))
    add(name + "/linear", image(data, shape, axis, 1))
    add(name + "/labels", classes(labels, shape, axis))
add("blur/0.7", ndimage.gaussian_filter(data, 0.7))
add("blur/1.0", ndimage.gaussian_filter(data, 1.0))
for n, k in ((7, 5), (20, 5), (64, 4)):
    for fold, (_, held_out) in enumerate(KFold(k, shuffle=True, random_state=12345).split(np.zeros(n))):
        add(f"kfold/{n}/{k}/{fold}", held_out)

path = pathlib.Path(__file__).parent / "data.ref"
with open(path, "wb") as file:
    file.write(b"TDREF1\n\0")
    for name, array in ENTRIES:
        text = name.encode()
        file.write(struct.pack("<I", len(text)) + text + struct.pack("<I", array.ndim))
        file.write(struct.pack(f"<{array.ndim}q", *array.shape))
        file.write(array.astype("<f8").tobytes())
print(path.name, path.stat().st_size, "bytes")
