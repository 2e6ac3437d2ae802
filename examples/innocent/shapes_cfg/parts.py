import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

KINDS = ["disc", "ring", "square", "triangle", "cross", "bars"]
MODELS = {}


def register(cls):
    MODELS[cls.__name__] = cls
    return cls


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.c2, self.b2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


@register
class ResShapes(nn.Module):
    def __init__(self, classes, channels, blocks, dropout, stem_stride):
        super().__init__()
        layers, c = (
            [
                nn.Conv2d(3, channels[0], 3, stem_stride, 1, bias=False),
                nn.BatchNorm2d(channels[0]),
                nn.ReLU(),
            ],
            channels[0],
        )
        for n in channels:
            layers += [nn.Conv2d(c, n, 3, 2, 1, bias=False), nn.BatchNorm2d(n), nn.ReLU()] + [
                Res(n) for _ in range(blocks)
            ]
            c = n
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(c, classes))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


# ---- augmentations work on a whole batch ----
class flip:
    def __init__(self, p):
        self.p = p

    def __call__(self, x):
        m = torch.rand(len(x), 1, 1, 1) < self.p
        return torch.where(m, x.flip(-1), x)


class shift:
    def __init__(self, pixels):
        self.n = pixels

    def __call__(self, x):
        dx, dy = torch.randint(-self.n, self.n + 1, (2,)).tolist()
        return x.roll((dy, dx), (2, 3))


class noise:
    def __init__(self, std):
        self.std = std

    def __call__(self, x):
        return x + self.std * torch.randn_like(x)


class fade:
    def __init__(self, low):
        self.low = low

    def __call__(self, x):
        return x * (self.low + (1 - self.low) * torch.rand(len(x), 1, 1, 1))


def draw(count, size, palette, rng):
    """Shapes of any colour on a background of another colour; colour says nothing about the class."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), palette)) as f:
        colors = np.array([c["rgb"] for c in json.load(f)["colors"]], np.float32) / 255
    yy, xx = np.mgrid[:size, :size].astype(np.float32)
    xs, ys = np.empty((count, 3, size, size), np.float32), rng.integers(len(KINDS), size=count)
    for i in range(count):
        cx, cy = rng.uniform(size * 0.35, size * 0.65, 2)
        r, turn = rng.uniform(size * 0.16, size * 0.3), rng.uniform(0, math.pi)
        u = (xx - cx) * math.cos(turn) + (yy - cy) * math.sin(turn)
        v = -(xx - cx) * math.sin(turn) + (yy - cy) * math.cos(turn)
        d = np.hypot(u, v)
        m = [
            d < r,
            (d < r) & (d > 0.6 * r),
            np.maximum(abs(u), abs(v)) < 0.85 * r,
            (v > -0.6 * r) & (v < r - 1.8 * abs(u)),
            (np.minimum(abs(u), abs(v)) < 0.25 * r) & (d < r),
            (np.sin(u * 6 / r * 1.3) > 0) & (np.maximum(abs(u), abs(v)) < r),
        ][ys[i]]
        a, b = rng.choice(len(colors), 2, replace=False)
        xs[i] = np.where(m, colors[a][:, None, None], colors[b][:, None, None]) + rng.normal(
            0, 0.06, (3, size, size)
        )
    return torch.from_numpy(xs), torch.from_numpy(ys)
