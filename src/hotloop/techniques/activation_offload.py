"""Activation offload: what blocks keep for the backward pass waits in pinned host memory.

What: copies each saved tensor of a repeated block that has 1 MiB or more to pinned host memory on a
    stream of its own, and frees it on the GPU; in the backward pass the next two come back while
    one is computed with. With activation-checkpointing:mode=full only the inputs of blocks are
    saved, and move.
Helps when: rows are so long that activations do not fit even if they are recomputed, or bytes move
    faster than they are computed again.
Does not help when: the memory suffices, or the bus is slow: each byte moves out and in again.
Numbers: bitwise the same; numbers are copied.
Measured: not measured here: needs a CUDA GPU. A simulated one, which shows memory, copies and waits
    and no time: docs/nullcard.md.
Source: https://huggingface.co/docs/trl/main/en/model_utils (get_act_offloading_ctx_manager,
    2026-11)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop.core.units import bytes_
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique, keep_undo, only_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from hotloop.session.session import Session

__all__ = ["ID", "TECHNIQUE"]

ID = "activation-offload"


def change(model: nn.Module) -> list[Callable[[], object]]:
    """Let the repeated blocks of a model save in host memory; return an undo function for each."""
    from hotloop.machine.activation_store import ActivationStore
    from hotloop.models.repeated_blocks import repeated_blocks

    store = ActivationStore()
    back: list[Callable[[], object]] = []
    for block in repeated_blocks(model):
        own = vars(block).get("forward")  # another technique's
        back.append(
            partial(delattr, block, "forward")
            if own is None
            else partial(setattr, block, "forward", own)
        )
        block.forward = partial(_run, block, block.forward, store)
    return back


def _run(block: nn.Module, inner: Any, store: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a block's own forward; in training, save its activations in the store."""
    import torch

    if not (block.training and torch.is_grad_enabled()):
        return inner(*args, **kwargs)
    with store.saving():
        return inner(*args, **kwargs)


def apply(session: Session) -> int:
    """Change the model; return the number of its blocks."""
    return keep_undo(session, ID, change(session.model))


def read_back(session: Session) -> str | None:
    """Count the blocks that save in host memory, and what they have moved so far."""
    from hotloop.models.repeated_blocks import repeated_blocks

    blocks = repeated_blocks(session.model)
    forwards = (vars(block).get("forward") for block in blocks)
    stores = [f.args[2] for f in forwards if isinstance(f, partial) and f.func is _run]
    if not stores:
        return None
    moved = stores[0].moved_bytes
    told = f", {bytes_(moved)} so far" if moved else ""
    return f"{len(stores)} of {len(blocks)} blocks save in host memory{told}"


TECHNIQUE = Technique(
    id=ID,
    title="Activation offload",
    stage=Stage.MODEL,
    numerics=Numerics.BITWISE,
    blocked=only_on("cuda", "activations are moved from a GPU to the host"),
    apply=apply,
    read_back=read_back,
    nothing="the model has no repeated blocks",
    excludes=frozenset({"compile", "cuda-graphs", "deepspeed", "fsdp2"}),
    on_model=change,
    hosts=frozenset({HostKind.ENGINE}),
)
