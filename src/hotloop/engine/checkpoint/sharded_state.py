"""What a checkpoint takes and gives where an exchange keeps weights or state in pieces.

A piece is not a part of a tensor by rows. So a tensor is gathered on all ranks, one at a time, and
the rank that writes it keeps it: the files are those of ranks that have everything.
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
    """Hold a block that writes weights; all ranks enter it, and see them whole."""
    sharded = session.parallel.sharded_optimizer
    return nullcontext() if sharded is None else sharded.whole()


def weights_of(
    session: Session, sharded_optimizer: ShardedOptimizer, learned: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return what this rank writes of the weights and buffers that training changes."""
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
    """Return (what this rank writes of the optimizer's state, what state.json says of it)."""
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
    """Return this rank's share of tensors to be asked for, in float32, and of those at hand."""
    shapes = {name: torch.empty(shape, device="meta") for name, (shape, _) in wanted.items()}
    tensors = mine({**shapes, **there}, session.parallel.group.rank, session.parallel.group.world)
    for name, (_, ask) in wanted.items():
        tensor = ask()
        if name in tensors:
            tensors[name] = tensor.cpu()
    return tensors
