"""Draw text from a next-character model, one character at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn


__all__ = ["sample"]

UNKNOWN = 0  # the id of <unk>; it is never drawn
SMALLEST = torch.finfo(torch.float32).tiny  # smaller temperatures count as 0


@torch.no_grad()
def sample(
    model: nn.Module,
    start_T: Tensor,
    *,
    samples: int,
    length: int,
    temperature: float,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Return ids [samples, length] that continue the ids `start_T` (at least one).

    Equal seeds give equal ids on one machine. Temperature 0 takes the likeliest character.
    `progress` is called with (characters done, all characters).
    """
    generator = torch.Generator().manual_seed(seed)
    context = int(model.context)  # type: ignore[arg-type] # an attribute of every recipe's model
    ids_BT = start_T.repeat(samples, 1)
    for done in range(1, length + 1):
        logits_BV = model(ids_BT[:, -context:])[:, -1]
        ids_BT = torch.cat([ids_BT, _draw(logits_BV, temperature, generator)], dim=1)
        if progress:
            progress(done, length)
    return ids_BT[:, len(start_T) :]


def _draw(logits_BV: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Return one id for each row, [B, 1]."""
    logits_BV[:, UNKNOWN] = -torch.inf
    if temperature < SMALLEST:
        return logits_BV.argmax(-1, keepdim=True)
    logits_BV = logits_BV - logits_BV.amax(-1, keepdim=True)  # else a small temperature overflows
    return torch.multinomial((logits_BV / temperature).softmax(-1), 1, generator=generator)
