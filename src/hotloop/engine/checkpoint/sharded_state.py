"""Reads the weights and state that a ShardedOptimizer keeps in pieces, for a checkpoint.

A piece is not a block of rows. So tensors are gathered on all ranks, one at a time, and kept by the
rank that writes them. The files are the same as from ranks that have everything.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from hotloop.engine.checkpoint.tensors import mine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor

    from hotloop.session.ranks import ShardedOptimizer
    from hotloop.session.session import Session

__all__ = ["state_of", "weights_of", "whole"]

ENTRIES = ("exp_avg", "exp_avg_sq")  # of AdamW, for each parameter, besides its step


def whole(session: Session) -> AbstractContextManager[None]:
    """Return a context for writing weights, which are whole in it; all ranks must enter it."""
    sharded = session.parallel.sharded_optimizer
    return nullcontext() if sharded is None else sharded.whole()


def weights_of(
    session: Session, sharded_optimizer: ShardedOptimizer, learned: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return those weights and buffers changed by training that this rank writes."""
    named = dict(session.model.named_parameters(remove_duplicate=False))  # tied ones: each name
    wanted = {
        name: (
            sharded_optimizer.shape(named[name]),
            lambda name=name: sharded_optimizer.weight(named[name]),
        )
        for name in learned
        if name in named
    }
    buffers = {name: tensor for name, tensor in learned.items() if name not in wanted}
    return _own(session, wanted, buffers)


def state_of(
    session: Session, sharded_optimizer: ShardedOptimizer
) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Return (this rank's share of the optimizer's tensors, the rest of it for state.json)."""
    steps = sharded_optimizer.steps
    if not steps:
        return {}, {"scalars": {}, "without_state": list(sharded_optimizer.names)}
    named = dict(session.model.named_parameters())
    wanted = {
        f"{name}/{entry}": (
            sharded_optimizer.shape(named[name]),
            lambda name=name, entry=entry: sharded_optimizer.moment(name, entry),
        )
        for name in sharded_optimizer.names
        for entry in ENTRIES
    }
    counts = {f"{name}/step": torch.tensor(steps) for name in sharded_optimizer.names}
    return _own(session, wanted, counts), {"scalars": {}, "without_state": []}


def _own(
    session: Session,
    wanted: Mapping[str, tuple[torch.Size, Callable[[], Tensor]]],
    there: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return this rank's share of `wanted`, gathered in float32, and of the tensors `there`."""
    shapes = {name: torch.empty(shape, device="meta") for name, (shape, _) in wanted.items()}
    tensors = mine({**shapes, **there}, session.parallel.group.rank, session.parallel.group.world)
    for name, (_, ask) in wanted.items():
        tensor = ask()
        if name in tensors:
            tensors[name] = tensor.cpu()
    return tensors
