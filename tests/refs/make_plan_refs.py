#!/usr/bin/env python3
"""Writes tests/refs/plans.inc: what nnU-Net 2.8.1 plans for made-up data sets.
Topology: nnunetv2's own get_pool_and_conv_props. The search for patch and batch follows
ExperimentPlanner.get_plans_for_configuration; its memory estimate is compute_conv_feature_map_size of PlainConvUNet, here as a sum
(checked against the number of medical.md 2.1). usage: make_plan_refs.py FOLDER_OF_nnunetv2"""
import pathlib, random, sys

import numpy as np

exec(open(pathlib.Path(sys.argv[1]) / "experiment_planning/experiment_planners/network_topology.py").read())


def proxy(patch, strides, classes):
    size, sizes, features, total = list(patch), [], [], 0
    for s, stride in enumerate(strides):
        size = [a // b for a, b in zip(size, stride)]
        sizes.append(size)
        features.append(min(320, 32 * 2**s))
        total += 2 * features[s] * int(np.prod(size))
    for s in range(len(strides) - 1):
        total += (3 * features[s] + classes) * int(np.prod(sizes[s]))
    return total


assert proxy([128] * 3, [[1] * 3] + [[2] * 3] * 5, 3) == 453694976


def plan(spacing, median, cases, classes, gigabytes):
    tmp = 1 / np.array(spacing)
    initial = [round(i) for i in tmp * (256**3 / np.prod(tmp)) ** (1 / 3)]
    initial = np.array([min(i, j) for i, j in zip(initial, median)])
    pools, strides, kernels, patch, divisible = get_pool_and_conv_props(spacing, initial, 4, 999999)
    reference = 560000000 * gigabytes / 8
    while proxy(patch, strides, classes) > reference:
        axis = np.argsort([i / j for i, j in zip(patch, median)], kind="stable")[-1]
        patch = list(patch)
        smaller = list(patch)
        smaller[axis] -= divisible[axis]
        divisible = get_pool_and_conv_props(spacing, smaller, 4, 999999)[4]
        patch[axis] -= divisible[axis]
        pools, strides, kernels, patch, divisible = get_pool_and_conv_props(spacing, patch, 4, 999999)
    batch = round(reference / proxy(patch, strides, classes) * 2)
    most = round(float(np.prod(median)) * cases * 0.05 / np.prod(patch, dtype=np.float64))
    return list(map(int, patch)), strides, kernels, max(min(batch, most), 2)


draw = random.Random(5)
rows = [([1, 1, 1], [36, 50, 35], 260, 3, 8), ([1, 0.767, 0.767], [482, 512, 512], 131, 3, 8), ([3.6, 0.625, 0.625], [20, 320, 319], 32, 3, 8),
        ([3, 0.76, 0.76], [148, 512, 512], 30, 14, 8), ([1, 1, 1], [138, 170, 138], 484, 4, 8)]
for _ in range(15):
    spacing = [draw.choice([0.5, 0.7, 1, 1.5, 2, 3, 5]) for _ in range(3)]
    median = [draw.randint(12, 500) + draw.choice([0, 0.5]) for _ in range(3)]
    rows.append((spacing, median, draw.randint(5, 300), draw.randint(2, 30), draw.choice([4, 8, 24])))
braces = lambda v: "{" + ", ".join(braces(i) if isinstance(i, (list, tuple)) else f"{i:g}" for i in v) + "}"
print("// Made by tests/refs/make_plan_refs.py: {spacing, median shape, cases, outputs, GB} -> {patch, strides, kernels, batch}.")
for row in rows:
    patch, strides, kernels, batch = plan(*row)
    print(f"{{{braces(row[0])}, {braces(row[1])}, {row[2]}, {row[3]}, {row[4]},\n {braces(patch)}, {braces(strides)},\n {braces(kernels)}, {batch}}},")
