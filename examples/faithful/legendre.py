"""Fits a sine by a user's own autograd Function: no module, no loader, no optimizer.

Follows pytorch/tutorials beginner_source/examples_autograd/polynomial_custom_function.py
@ 02ed6c5cf613bbf2b631704eee62033b8bd746ef (BSD-3-Clause) in which parts of PyTorch it uses and in
which order; the code is ours. Its backward prints, so an extra backward call would be seen.
"""

import math

import torch


class Legendre2(torch.autograd.Function):
    """The second Legendre polynomial, with its derivative written by hand."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (3 * x * x - 1) / 2

    @staticmethod
    def backward(ctx, upstream):
        Legendre2.calls += 1
        (x,) = ctx.saved_tensors
        return 3 * x * upstream


x = torch.linspace(0, math.pi, 500, dtype=torch.float64)
target = torch.sin(x)
names = ("shift", "scale", "inner", "slope")
values = [torch.tensor(v, dtype=x.dtype, requires_grad=True) for v in (0.5, -0.5, -0.8, 0.6)]

for step in range(400):
    shift, scale, inner, slope = values
    guess = shift + scale * Legendre2.apply(inner + slope * x)
    loss = (guess - target).square().mean()
    loss.backward()
    with torch.no_grad():
        for value in values:
            value -= 0.1 * value.grad
            value.grad = None
    if step % 80 == 79:
        print(f"{step}: {loss.item():.12f}, backward called {Legendre2.calls} times")

for name, value in zip(names, values, strict=True):
    print(name, value.item().hex())
