"""FSDP2: weights, gradients and optimizer state in rows over several GPUs.

What: torch's fully_shard on each repeated block and on the rest: a GPU keeps 1/N of weights,
    gradients and optimizer state, gathers a block before it computes and lets it go after. In an
    accumulation window gradients are exchanged once, at its end; keep=off exchanges them for each
    micro batch, and needs no memory for whole gradients in between. reshard=off keeps what the
    forward pass gathered for the backward pass.
Helps when: the model with gradients and optimizer state does not fit one GPU: above about 3 B
    parameters trained whole in float32 (16 bytes each) on one of 80 GB, above 1 B on one of 24 GB.
Does not help when: it fits: ddp sends two thirds as much (gradients once there and back; here
    weights twice, gradients once), and only at the end of a window.
Numbers: rounding: sums over the batch are made in another order. Dropout draws other masks than
    on one GPU, for each rank has a random stream of its own.
Measured: two gloo ranks of one core each take 0.67 of the step of one rank on one core, quartiles
    0.66-0.67 (n 4; 351 and 527 ms, 51 ms of them waiting and exchanging; ddp 0.54; char-lm 4 x 256,
    16 x 128 tokens a step, float32, AMD EPYC, torch 2.13; benchmarks/several.py); on GPUs: not
    measured.
Source: Zhao et al. 2023, https://arxiv.org/abs/2304.11277;
    https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.sharding_ids import HOW, wants_group
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse a single process, and fp16, whose loss scale is not agreed on between ranks."""
    if plan.choice("autocast-fp16") is not None:
        return "the fp16 loss scaler looks at each rank's own rows: use ddp, or bf16"
    return wants_group(hardware, plan)


def apply(session: Session, *, reshard: str = "on", keep: str = "on") -> int:
    """Shard the model in place; return the number of its tensors that are sharded by rows."""
    from hotloop.distributed.fsdp import Sharded
    from hotloop.models.row_sharded import is_sharded

    session.parallel.sync = Sharded(session, reshard=reshard == "on", keep=keep == "on")
    session.wrapped.append("fully_shard")
    return sum(map(is_sharded, session.model.parameters()))


def read_back(session: Session) -> str | None:
    """Count the tensors sharded by rows, and this rank's fraction of the model."""
    from hotloop.models.row_sharded import is_sharded, local

    parameters = list(session.model.parameters())
    rows = [p for p in parameters if is_sharded(p)]
    if not rows:
        return None
    mine = sum(local(p).numel() for p in parameters)
    group = session.parallel.group
    return (
        f"{group.world} ranks, {len(rows)} of {len(parameters)} tensors in rows: rank "
        f"{group.rank} holds {mine / sum(p.numel() for p in parameters):.0%} of the model"
    )


TECHNIQUE = Technique(
    id="fsdp2",
    title="Fully sharded data parallel (FSDP2)",
    stage=Stage.SHARD,
    numerics=Numerics.ROUNDING,
    apply=apply,
    read_back=read_back,
    blocked=blocked,
    choices={"reshard": ("on", "off"), "keep": ("on", "off")},
    excludes=frozenset(
        {"activation-offload", "adamw-8bit", "autocast-fp16", "ddp", "deepspeed", "cuda-graphs"}
    ),
    nothing=HOW,
    hosts=frozenset({HostKind.ENGINE}),
    tolerance=1e-5,
    cosine=0.99999,
)
