"""AdamW whose moving averages take 8 bits each, on the GPU or in host memory.

What: replaces the optimizer by one that keeps both averages of a matrix in 8 bits, in blocks of 256
    numbers with a scale. With state=host they lie in pinned host memory: each step takes them
    through the GPU piece by piece, in and out on streams of their own, while others are computed.
    On a GPU with Triton the update of a piece is compiled where the model is large (compiled=auto).
Helps when: a whole model is trained: its state takes 2 bytes a parameter in place of 8, or none on
    the GPU.
Does not help when: adapters are trained, whose state is small. state=host moves 4 bytes a parameter
    and step over the bus: for 4 billion parameters 0.3 to 0.7 s at 25 to 12 GB/s each way.
Numbers: training: what lies between two codes becomes one of them by chance. Parameters below
    65,536 numbers keep averages in float32.
Measured: validation loss of a character model after 500 steps 1.912 (torch's AdamW 1.918; means of
    three seeds, which spread by 0.03; benchmarks/adamw_8bit.py). On a simulated RTX 4090 no wait,
    and char-lm launches 516 kernels a step compiled, 1,620 not, 341 with fused AdamW
    (docs/nullcard.md). Speed on a GPU: not measured.
Source: Dettmers et al. 2021, https://arxiv.org/abs/2110.02861
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.units import bytes_
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["ID", "TECHNIQUE"]

ID = "adamw-8bit"
# Numbers from which the update is compiled; estimated, as no GPU was there. Some 50 single kernels
# read and write about 10 bytes a number each: 67 million take 35 ms a step at 1 TB/s.
_LARGE = 1 << 26


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse state=host without a GPU of its own memory."""
    if (plan.choice(ID) or {}).get("state") != "host":
        return None
    if hardware.device != "cuda":
        return f"the state of an optimizer on a {hardware.device} device is in its memory anyway"
    return None


def apply(session: Session, *, state: str = "gpu", compiled: str = "auto") -> int:
    """Replace the optimizer by one with the same groups; return the number of its parameters.

    Where all of them are small none has 8-bit averages, as with bitsandbytes: the row says so.
    """
    from hotloop.models.adamw_8bit import AdamW8bit, is_coded

    before = session.optimizer
    if before is None or "betas" not in before.param_groups[0]:
        return 0
    keys = ("params", "lr", "betas", "eps", "weight_decay")
    groups = [{key: group[key] for key in keys} for group in before.param_groups]
    params = [p for group in groups for p in group["params"]]
    coded = [p for p in params if is_coded(p)]
    more: dict[str, Any] = {}
    is_large = sum(p.numel() for p in coded) >= _LARGE
    if coded and (compiled == "yes" or (compiled == "auto" and is_large)):
        update, session.facts[ID] = _compiled(coded, groups)
        more = {} if update is None else {"update": update}
    session.optimizer = AdamW8bit(groups, lr=groups[0]["lr"], on_host=state == "host", **more)
    return len(params)


def _compiled(
    coded: Sequence[Tensor], groups: Sequence[Mapping[str, Any]]
) -> tuple[Callable[..., None] | None, str]:
    """Return the compiled update of a piece, or None; and what to say of it."""
    import torch
    from torch._dynamo.utils import counters
    from torch.utils._triton import has_triton

    from hotloop.models.adamw_8bit import tried, update_piece
    from hotloop.techniques.compile import FAILS

    if not coded[0].is_cuda or not has_triton():  # type: ignore[no-untyped-call, unused-ignore]
        return None, ", updated by single kernels: there is no Triton here"
    update = torch.compile(update_piece, dynamic=True, fullgraph=True)
    try:
        for parameter in {p.dtype: p for p in coded}.values():
            tried(update, parameter, groups[0]["betas"], groups[0]["eps"])
    except FAILS as error:
        why = " ".join(str(error).split())[:200]
        return None, f", updated by single kernels: {type(error).__name__}: {why}"
    counters.clear()  # those of the model are counted from here on
    return update, ", updated by a compiled kernel"


def read_back(session: Session) -> str | None:
    """Read the optimizer's class and where its state lies or will lie."""
    from hotloop.models.adamw_8bit import AdamW8bit, is_coded

    optimizer = session.optimizer
    if not isinstance(optimizer, AdamW8bit):
        return None
    params = [p for group in optimizer.param_groups for p in group["params"]]
    coded = [p for p in params if is_coded(p)]
    if not coded:
        return f"none of {len(params)} parameters has 65,536 numbers: averages stay in float32"
    size = bytes_(sum(2 * p.numel() for p in coded))
    where = "host memory" if optimizer.on_host else f"the memory of the {session.device}"
    told = f"{len(coded)} of {len(params)} parameters have 8-bit averages, {size} in {where}"
    return told + str(session.facts.get(ID, ""))


def state_bytes(parameter: Tensor, *, state: str = "gpu", compiled: str = "auto") -> int:
    """Return the bytes of a parameter's state on the device."""
    del compiled
    from hotloop.models.adamw_8bit import state_bytes as of

    return of(parameter, on_host=state == "host")


TECHNIQUE = Technique(
    id=ID,
    title="AdamW in 8 bits",
    stage=Stage.OPTIMIZER,
    numerics=Numerics.TRAINING,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"state": ("gpu", "host"), "compiled": ("auto", "yes", "no")},
    nothing="the optimizer is not AdamW",
    excludes=frozenset({"fused-adamw", "fsdp2", "deepspeed"}),
    hosts=frozenset({HostKind.ENGINE}),
    state_bytes=state_bytes,
)
