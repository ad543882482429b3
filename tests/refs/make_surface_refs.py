#!/usr/bin/env python3
"""Prints the expected values of tests/data/surface_distance_test.cpp with scipy.

    python3 tests/refs/make_surface_refs.py        # needs numpy and scipy (the values were made with 2.x and 1.x)

Masks are given by formulas that the test repeats. Surface: mask XOR scipy's erosion (6 neighbours, outside the image is
outside the mask); distances: scipy.ndimage.distance_transform_edt with sampling; percentiles: numpy's linear rule.
"""
import numpy as np
from scipy import ndimage


def ball(shape, centre, radius, spacing=(1, 1, 1)):
    grid = np.indices(shape)
    return sum(((grid[a] - centre[a]) * spacing[a]) ** 2 for a in range(3)) <= radius ** 2


def cube(first, size=12):
    mask = np.zeros((size,) * 3, bool)
    mask[first:first + 6, 2:8, 2:8] = True
    return mask


def blobs(shape, seed):
    """Voxels whose hash is below 1/16, grown by one step of dilation: ragged, touching the border."""
    i = np.arange(np.prod(shape), dtype=np.uint64)
    x = (i * np.uint64(2654435761) + np.uint64(seed * 40503 + 12345)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    return ndimage.binary_dilation((x < np.uint64(1 << 26)).reshape(shape))


def surface(mask):
    return mask ^ ndimage.binary_erosion(mask)


def report(name, prediction, reference, spacing, tolerances):
    p, r = surface(prediction), surface(reference)
    to_reference = ndimage.distance_transform_edt(~r, sampling=spacing)[p]
    to_prediction = ndimage.distance_transform_edt(~p, sampling=spacing)[r]
    both = np.concatenate([to_reference, to_prediction])
    print(f"{name}: surfaces {p.sum()} {r.sum()} hd {both.max():.12g} "
          f"hd95 {max(np.percentile(to_reference, 95), np.percentile(to_prediction, 95)):.12g} "
          f"pooled {np.percentile(both, 95):.12g} assd {both.mean():.12g} "
          + " ".join(f"nsd({t}) {(both <= t).mean():.12g}" for t in tolerances))


def main():
    report("cube, spacing 1", cube(3), cube(2), (1, 1, 1), [1])
    report("cube, spacing 3 1 1", cube(3), cube(2), (3, 1, 1), [1, 3])
    stray = cube(2)
    stray[10, 10, 10] = True
    report("cube + stray", stray, cube(2), (1, 1, 1), [1])
    shape, centre = (24, 24, 24), (12, 12, 12)
    report("balls", ball(shape, centre, 6), ball(shape, centre, 8), (1, 1, 1), [1])
    spacing = (2.5, 0.7, 1.1)
    report("balls, anisotropic", ball((9, 31, 20), (4, 14, 9), 7.5, spacing), ball((9, 31, 20), (3, 16, 10), 6, spacing),
           spacing, [0.5, 1, 2])
    report("blobs", blobs((7, 11, 13), 1), blobs((7, 11, 13), 2), (3, 0.8, 1.25), [0.5, 1, 1.3])
    squared = ndimage.distance_transform_edt(~blobs((7, 11, 13), 3), sampling=(3, 0.8, 1.25)) ** 2
    print(f"transform of blobs 3: sum {squared.sum():.12g} max {squared.max():.12g} "
          f"weighted {(squared.ravel() * np.arange(squared.size)).sum():.12g}")
    sparse = np.ones((5, 6, 40), bool)
    sparse[1, 2, 3] = sparse[4, 5, 39] = sparse[0, 0, 20] = False
    squared = ndimage.distance_transform_edt(sparse, sampling=(0.5, 10, 0.1)) ** 2
    print(f"transform of three points: sum {squared.sum():.12g} max {squared.max():.12g}")
    print("p95 of 0 0 1 1 2 3 4 5 6 10:", np.percentile([0, 0, 1, 1, 2, 3, 4, 5, 6, 10], 95))


if __name__ == "__main__":
    main()
