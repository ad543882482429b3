#!/usr/bin/env python3
"""Writes the reference values of tests/optim and tests/layers with PyTorch (double precision).

    python3 tests/refs/make_refs.py        # writes optim.ref, unet3d.ref, sample_cnn.ref beside this file

Needs torch (the committed files were made with 2.15) and numpy. A .ref file is little-endian:
    8 bytes "TDREF1\\n\\0", then until the end of the file: u32 length of the name, the name (UTF-8), u32 rank,
    rank x i64 sizes, the values as f64 in row-major (logical) order.
tests/refs/ref_file.h reads it. Weights and inputs are not stored: both sides compute them by `filled`. Gradients
with more than 20000 elements are stored as every 13th element (name + "/every13") and as the sum of g[i] * u(i)
(name + "/projection"), which sees every element.
"""

import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent


class RefFile:
    def __init__(self, name):
        self.name, self.entries = name, []

    def add(self, name, values):
        array = np.ascontiguousarray(np.asarray(values, dtype=np.float64))
        self.entries.append((name, array))

    def add_gradient(self, name, tensor):
        array = tensor.numpy()
        if array.size <= 20000:
            self.add(name, array)
            return
        flat = array.reshape(-1)
        self.add(name + "/every13", flat[::13])
        self.add(name + "/projection", [np.dot(flat, filled(flat.size, 999, 1.0))])

    def write(self):
        path = HERE / self.name
        with open(path, "wb") as file:
            file.write(b"TDREF1\n\0")
            for name, array in self.entries:
                text = name.encode()
                file.write(struct.pack("<I", len(text)) + text + struct.pack("<I", array.ndim))
                file.write(struct.pack(f"<{array.ndim}q", *array.shape))
                file.write(array.astype("<f8").tobytes())
        print(path.name, path.stat().st_size, "bytes")


def filled(count, stream, bound):
    """Values in [-bound, bound) that are exact in FP32 for a power-of-two bound: 24 bits of an integer hash."""
    x = np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(stream * 40503 + 12345)
    x = x & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return ((x >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1.0) * bound


def fill_parameters(module):
    """Sets parameter i of `module` to filled(...) with stream i; norm scales to 1 + that. Returns the names."""
    names = []
    for i, (name, parameter) in enumerate(module.named_parameters()):
        bound = 2.0 ** -round(np.log2(max(parameter[0].numel(), 1)) / 2) if parameter.dim() > 1 else 0.25
        values = filled(parameter.numel(), i, bound) + (1.0 if is_norm_scale(name) else 0.0)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
        names.append(name)
    return names


def is_norm_scale(name):
    return "norm" in name and name.endswith("weight")


# --- models -----------------------------------------------------------------------------------------------------


class Stage(nn.Module):
    def __init__(self, cin, cout, kernel, stride):
        super().__init__()
        pad = [(k - 1) // 2 for k in kernel]
        self.conv1 = nn.Conv3d(cin, cout, kernel, stride, pad)
        self.norm1 = nn.InstanceNorm3d(cout, eps=1e-5, affine=True)
        self.conv2 = nn.Conv3d(cout, cout, kernel, 1, pad)
        self.norm2 = nn.InstanceNorm3d(cout, eps=1e-5, affine=True)

    def forward(self, x):
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.01)
        return F.leaky_relu(self.norm2(self.conv2(x)), 0.01)


class UNet3d(nn.Module):
    """nnU-Net's PlainConvUNet, modules registered in Tandem's order."""

    def __init__(self, features, strides, kernels, cin, classes):
        super().__init__()
        self.levels = len(features) - 1
        for s, f in enumerate(features):
            self.add_module(f"enc{s}", Stage(features[s - 1] if s else cin, f, kernels[s], strides[s]))
        for s in reversed(range(self.levels)):
            up = nn.ConvTranspose3d(features[s + 1], features[s], strides[s + 1], strides[s + 1])
            self.add_module(f"up{s}", up)
            self.add_module(f"dec{s}", Stage(2 * features[s], features[s], kernels[s], [1, 1, 1]))
        for s in range(self.levels):
            self.add_module(f"head{s}", nn.Conv3d(features[s], classes, 1))

    def forward(self, x):
        skips = []
        for s in range(self.levels + 1):
            x = getattr(self, f"enc{s}")(x)
            skips.append(x)
        for s in reversed(range(self.levels)):
            x = getattr(self, f"dec{s}")(torch.cat([getattr(self, f"up{s}")(x), skips[s]], 1))
        return self.head0(x)


class SampleCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv2(F.max_pool2d(self.conv1(x), 2)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def dice_ce(logits, labels):
    """nnU-Net's DC_and_CE_loss: batch Dice without background, smooth 1e-5, weights 1 and 1."""
    p = logits.softmax(1)
    g = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(p.dtype)
    axes = [0] + list(range(2, p.dim()))
    i, sp, sg = (p * g).sum(axes)[1:], p.sum(axes)[1:], g.sum(axes)[1:]
    dice = (2 * i + 1e-5) / torch.clip(sp + sg + 1e-5, 1e-8)
    return F.cross_entropy(logits, labels) - dice.mean()


def forward_backward(make, shape, classes, label_shape, autocast=None):
    """Names, logits, loss and gradients; in FP64, or in FP32 under autocast to a 16-bit dtype with a loss scale."""
    model = make().double() if autocast is None else make()
    names = fill_parameters(model)
    x = torch.from_numpy(filled(int(np.prod(shape)), 500, 2.0)).reshape(shape)
    count = int(np.prod(label_shape))
    labels = torch.from_numpy(((filled(count, 501, 1.0) + 1) / 2 * classes).astype(np.int64)).reshape(label_shape)
    if autocast is None:
        logits = model(x)
    else:
        with torch.autocast("cpu", dtype=autocast):
            logits = model(x.float())
    wide = logits if autocast is None else logits.float()
    loss = dice_ce(wide, labels) if logits.dim() > 2 else F.cross_entropy(wide, labels)
    scale = 1024 if autocast is torch.float16 else 1
    (loss * scale).backward()
    grads = [p.grad.double() / scale if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    return names, logits.detach().double(), loss.item(), grads


def relative_error(got, expected):
    return ((got - expected).square().mean() / expected.square().mean()).sqrt().item()


def has_gradient(name, grad, is_unet):
    """False for a bias in front of a norm (its gradient is 0 but for rounding) and for heads that are not computed."""
    return not (is_unet and "conv" in name and name.endswith("bias")) and bool(grad.abs().max() > 0)


def model_reference(name, make, shape, classes, label_shape):
    names, logits, loss, grads = forward_backward(make, shape, classes, label_shape)
    ref = RefFile(name + ".ref")
    ref.add("shape", shape)
    ref.add("logits", logits.numpy())
    ref.add("loss", [loss])
    for parameter_name, grad in zip(names, grads):
        ref.add_gradient("grad/" + parameter_name, grad)
    # The yardstick for 16 bits is PyTorch's own error: of the logits, and the root mean square over the gradients
    # of each tensor's relative error.
    for key, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        _, low_logits, _, low_grads = forward_backward(make, shape, classes, label_shape, dtype)
        errors = [relative_error(low, grad) for n, low, grad in zip(names, low_grads, grads)
                  if has_gradient(n, grad, len(shape) == 5)]
        ref.add("error/" + key, [relative_error(low_logits, logits), np.sqrt(np.mean(np.square(errors)))])
    ref.write()


# --- optimizers -------------------------------------------------------------------------------------------------

STEPS, TOTAL, WARMUP, CLIP = 20, 25, 5, 12.0


def make_scheduler(optimizer, schedule):
    s = torch.optim.lr_scheduler
    warm = s.LinearLR(optimizer, start_factor=1 / WARMUP, total_iters=WARMUP - 1)
    if schedule == "poly":
        return s.ChainedScheduler([warm, s.PolynomialLR(optimizer, total_iters=TOTAL, power=0.9)])
    if schedule == "cosine":
        return s.ChainedScheduler([warm, s.CosineAnnealingLR(optimizer, T_max=TOTAL)])
    return warm


def optimizer_reference():
    cases = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
        "sgd_momentum_decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
        "sgd_nesterov_decay": lambda p: torch.optim.SGD(
            p, lr=0.05, momentum=0.99, nesterov=True, weight_decay=3e-5),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01),
        "adam_decay": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.99), eps=1e-6),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
        "rmsprop_momentum_decay": lambda p: torch.optim.RMSprop(
            p, lr=0.01, alpha=0.9, momentum=0.8, weight_decay=0.01),
        "rmsprop_centered": lambda p: torch.optim.RMSprop(
            p, lr=0.01, alpha=0.9, momentum=0.8, centered=True, eps=1e-3),
    }
    ref = RefFile("optim.ref")
    for name, make in cases.items():
        for schedule in ("constant", "poly", "cosine"):
            weights = [torch.from_numpy(filled(24, 0, 1.0)).reshape(4, 6).clone().requires_grad_(),
                       torch.from_numpy(filled(5, 1, 1.0)).clone().requires_grad_()]
            optimizer = make(weights)
            scheduler = make_scheduler(optimizer, schedule)
            rates, norms = [], []
            for step in range(STEPS):
                # Norms from about 1 to 24, so that some steps are clipped at 12 and some are not.
                for i, w in enumerate(weights):
                    w.grad = torch.from_numpy(filled(w.numel(), 100 + 2 * step + i, 8.0 / (1 << (step % 5)))).reshape(w.shape)
                norms.append(torch.nn.utils.clip_grad_norm_(weights, CLIP).item())
                rates.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                scheduler.step()
            prefix = f"{name}/{schedule}/"
            ref.add(prefix + "weight", weights[0].detach().numpy())
            ref.add(prefix + "bias", weights[1].detach().numpy())
            ref.add(prefix + "lr", rates)
            ref.add(prefix + "norm", norms)
    ref.write()


def schedule_reference():
    def rates(make, steps=40):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = make(optimizer)
        values = []
        for _ in range(steps):
            values.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return values

    S = torch.optim.lr_scheduler
    ref = RefFile("schedule.ref")
    ref.add("step", rates(lambda o: S.StepLR(o, 7, 0.5)))
    ref.add("multistep", rates(lambda o: S.MultiStepLR(o, [5, 6, 20], 0.1)))
    # PyTorch refuses a step beyond total_steps, so 40 of 41.
    ref.add("onecycle", rates(lambda o: S.OneCycleLR(o, 0.1, total_steps=41)))
    ref.add("onecycle_linear", rates(lambda o: S.OneCycleLR(
        o, 0.1, total_steps=41, pct_start=0.25, anneal_strategy="linear", div_factor=10, final_div_factor=100)))
    # A metric that rises, stalls, and rises a little; max and min by turns.
    metric = [0.1, 0.3, 0.5, 0.5, 0.50001, 0.4, 0.49, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.1, 0.1, 0.1, 0.1]
    ref.add("metric", metric)
    for mode in ("max", "min"):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = S.ReduceLROnPlateau(optimizer, mode=mode, factor=0.5, patience=2, threshold=1e-3, cooldown=1,
                                        min_lr=0.003)
        values = []
        for value in metric:
            scheduler.step(value if mode == "max" else 1 - value)
            values.append(optimizer.param_groups[0]["lr"])
        ref.add("plateau_" + mode, values)
    ref.write()


def check_parameter_counts():
    def count(features, cin, classes):
        n = len(features)
        strides = [[1] * 3] + [[2] * 3] * (n - 1)
        model = UNet3d(features, strides, [[3] * 3] * n, cin, classes)
        return sum(p.numel() for p in model.parameters())

    assert count((8, 16, 32), 1, 6) == 85484
    assert count((16, 32, 64), 1, 6) == 340172
    assert sum(p.numel() for p in SampleCnn().parameters()) == 431080


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_parameter_counts()
    optimizer_reference()
    schedule_reference()
    strides, kernels = [[1, 1, 1], [1, 2, 2], [2, 2, 2]], [[1, 3, 3], [3, 3, 3], [3, 3, 3]]
    model_reference("unet3d", lambda: UNet3d((4, 8, 16), strides, kernels, 1, 2), (2, 1, 4, 16, 16), 2, (2, 4, 16, 16))
    model_reference("sample_cnn", SampleCnn, (3, 1, 28, 28), 10, (3,))
