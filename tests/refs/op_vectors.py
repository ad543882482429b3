#!/usr/bin/env python3
"""Prints PyTorch's values that tests/ops/op_vectors_test.cpp holds (PyTorch 2.x, CPU, float32).

usage: op_vectors.py
"""
import torch
import torch.nn.functional as F

torch.set_printoptions(precision=9)
x = torch.tensor([0.0, 1.0, -2.0, 5.0])


def show(name, y):
    print(name, [float(f"{v:.9g}") for v in y.detach().flatten().tolist()])


for mode in ("nearest", "nearest-exact", "linear"):
    for size in (7, 3):
        show(f"resize {mode} {size}", F.interpolate(x.view(1, 1, 4), size=size, mode=mode))
volume = torch.arange(12.0).view(1, 1, 2, 2, 3) ** 2 / 8
show("trilinear 3 3 2", F.interpolate(volume, size=(3, 3, 2), mode="trilinear"))
for name in ("elu", "gelu", "silu", "sigmoid", "tanh", "softplus"):
    z = torch.tensor([-3.0, -0.5, 0.25, 2.0], requires_grad=True)
    y = getattr(torch if name in ("sigmoid", "tanh") else F, name)(z)
    y.sum().backward()
    show(name, y)
    show(f"d {name}", z.grad)
z = torch.tensor([-3.0, -0.5, 0.25, 2.0], requires_grad=True)
y = F.gelu(z, approximate="tanh")
y.sum().backward()
show("gelu_tanh", y)
show("d gelu_tanh", z.grad)
z = torch.tensor([[1.0, 2.0, 0.0, -1.0], [3.0, -2.0, 1.0, 0.5]], requires_grad=True)
for name, y in (("layer_norm", F.layer_norm(z, (4,))), ("group_norm 2", F.group_norm(z, 2))):
    z.grad = None
    (y * torch.tensor([1.0, -2.0, 0.5, 3.0])).sum().backward()
    show(name, y)
    show(f"d {name}", z.grad)
norm = torch.nn.BatchNorm1d(4)
z.grad = None
y = norm(z)
(y * torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 1.0, 1.0]])).sum().backward()
show("batch_norm", y)
show("d batch_norm", z.grad)
show("running_mean", norm.running_mean)
show("running_var", norm.running_var)
