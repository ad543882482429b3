"""Writes optimizer_reference.inc: one double weight after 20 steps of PyTorch's optimizers (needs torch).

Run: python tests/kernels/optimizer_reference.py > tests/kernels/optimizer_reference.inc
"""
import math

import torch

CASES = [
    ("kSgd", torch.optim.SGD, dict(lr=0.1)),
    ("kSgd", torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    ("kSgd", torch.optim.SGD, dict(lr=0.01, momentum=0.99, nesterov=True, weight_decay=3e-5)),
    ("kAdam", torch.optim.Adam, dict(lr=0.01)),
    ("kAdam", torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.1)),
    ("kAdamW", torch.optim.AdamW, dict(lr=0.01, weight_decay=0.01)),
    ("kAdamW", torch.optim.AdamW, dict(lr=0.05, betas=(0.95, 0.98), weight_decay=0.3)),
    ("kRmsProp", torch.optim.RMSprop, dict(lr=0.01)),
    ("kRmsProp", torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, momentum=0.8, weight_decay=0.01)),
    ("kRmsProp", torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, centered=True, eps=1e-3)),
    ("kRmsProp", torch.optim.RMSprop, dict(lr=0.001, alpha=0.95, momentum=0.8, centered=True, weight_decay=0.1)),
]


def weight_after(optimizer_class, options):
    w = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_class([w], **options)
    for t in range(1, 21):
        w.grad = torch.tensor(math.sin(1.7 * t), dtype=torch.float64) / (1 + w.detach() ** 2)
        optimizer.step()
    return w.item()


def fields(options):
    pairs = []
    for key in ("weight_decay", "momentum", "nesterov"):
        if key in options:
            pairs.append(f".{key} = {str(options[key]).lower()}")
    if "betas" in options:
        pairs += [f".beta1 = {options['betas'][0]}", f".beta2 = {options['betas'][1]}"]
    if "eps" in options:
        pairs.append(f".eps = {options['eps']}")
    if "alpha" in options:
        pairs.append(f".rho = {options['alpha']}")
    if "centered" in options:
        pairs.append(".centered = true")
    return ", ".join(pairs)


print(f"// Written by optimizer_reference.py with PyTorch {torch.__version__.split('+')[0]}.")
print("const Reference kReferences[] = {")
for kind, optimizer_class, options in CASES:
    weight = weight_after(optimizer_class, options)
    print(f"    {{OptimizerKind::{kind}, {{{fields(options)}}}, {options['lr']}, {weight!r}}},")
print("};")
