"""Find the repeated blocks of a model, which are compiled, recomputed or sharded one at a time."""

from __future__ import annotations

from torch import nn

__all__ = ["repeated_blocks"]


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules of the first nn.ModuleList of one type; [] if there is none."""
    lists = (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) > 1)
    repeated = (list(m) for m in lists if len({type(block) for block in m}) == 1)
    return next(repeated, [])
