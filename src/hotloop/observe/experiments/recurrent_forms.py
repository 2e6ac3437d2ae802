"""A recurrent layer that is called once for each time step, and once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.rewrite import Rewrite

__all__ = ["recurrent"]


def recurrent(rewrite: Rewrite) -> Forms:
    """Return both forms, with random inputs and weights."""
    import torch

    name, _, no_bias = rewrite.form.partition(" ")
    layer = name.removesuffix("_cell")
    dtype, device = getattr(torch, rewrite.dtypes[0]), rewrite.device
    given, *weights = (
        (torch.randn(*shape, dtype=dtype, device=device) * scale).requires_grad_(needs_grad)
        for shape, needs_grad, scale in zip(
            rewrite.shapes,
            rewrite.needs_grad,
            (1.0, *(shape[1] ** -0.5 for shape in rewrite.shapes[1:])),
            strict=True,
        )
    )
    if not no_bias:
        rows = rewrite.shapes[1][0]
        weights += [
            torch.zeros(rows, dtype=dtype, device=device).requires_grad_(weight.requires_grad)
            for weight in weights
        ]
    zeros = torch.zeros(given.shape[1], rewrite.shapes[2][1], dtype=dtype, device=device)
    trains = any(weight.requires_grad for weight in weights)
    on_sequence = getattr(torch, layer)
    start = (zeros[None], zeros[None]) if layer == "lstm" else zeros[None]

    def at_once(inputs: Any, state: Any) -> tuple[Any, Any]:
        output, *after = on_sequence(
            inputs, state, weights, not no_bias, 1, 0.0, trains, False, False
        )
        return output, tuple(after) if layer == "lstm" else after[0]

    def of_cells() -> Sequence[Any]:
        cell = getattr(torch, name)
        state = (zeros, zeros) if layer == "lstm" else zeros
        outputs = []
        for moment in given.unbind():
            state = cell(moment, state, *weights)
            outputs.append(state[0] if layer == "lstm" else state)
        return [torch.stack(outputs)]

    def of_sequences() -> Sequence[Any]:
        state, outputs = start, []
        for moment in given.unbind():
            output, state = at_once(moment[None], state)
            outputs.append(output)
        return [torch.cat(outputs)]

    def new() -> Sequence[Any]:
        return [at_once(given, start)[0]]

    old = of_cells if name != layer else of_sequences
    return Forms(inputs=[given], weights=weights, old=old, new=new, exact=(old, new))
