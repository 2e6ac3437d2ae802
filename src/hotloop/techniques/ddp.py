"""DDP: the whole model on each of several GPUs, each with its share of every batch.

What: torch's DistributedDataParallel around model and loss: gradients are averaged in buckets
    while the backward pass of a window's last micro batch still computes; earlier ones exchange
    nothing (no_sync). Steps take the same samples in the same order as on one GPU.
Helps when: model, gradients and optimizer state fit one GPU, and one step takes long enough to
    share: some tens of milliseconds of arithmetic for each 100 MB of gradients.
Does not help when: the model does not fit one GPU (fsdp2), or the batch is so small that each
    GPU's share no longer fills it. GPUs without a direct link exchange through the host.
Numbers: rounding: sums over the batch are made in another order. Dropout draws other masks than
    on one GPU, for each rank has a random stream of its own.
Measured: two gloo ranks of one core each take 0.54 of the step of one rank on one core, quartiles
    0.53-0.55 (n 4; 283 and 527 ms, 17 ms of them waiting and exchanging; char-lm 4 x 256, 16 x 128
    tokens a step, float32, AMD EPYC, torch 2.13; benchmarks/several.py); on GPUs: not measured.
Source: Li et al. 2020, https://arxiv.org/abs/2006.15704;
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.sharding_ids import HOW, wants_group
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]

BUCKET_MIB = 25  # torch's own


def apply(session: Session, *, bucket_mib: int = BUCKET_MIB, unused: str = "none") -> int:
    """Wrap model and loss; return the number of ranks that exchange gradients."""
    from hotloop.distributed.ddp import Replicas

    session.parallel.sync = Replicas(session, bucket_mib=bucket_mib, unused=unused == "find")
    session.wrapped.append("DistributedDataParallel")
    return session.parallel.group.world


def read_back(session: Session) -> str | None:
    """Read the ranks, back end and bucket size from torch's wrapper."""
    from hotloop.distributed.ddp import Replicas

    shares = session.parallel.sync
    if not isinstance(shares, Replicas) or session.forward is not shares.module:
        return None
    module = shares.module
    way = "over NCCL" if session.device.type == "cuda" else "over gloo"
    kind = f"buckets of {shares.bucket_mib} MiB"
    return f"{module.process_group.size()} ranks {way}, {kind}"


TECHNIQUE = Technique(
    id="ddp",
    title="Distributed data parallel",
    stage=Stage.SHARD,
    numerics=Numerics.ROUNDING,
    apply=apply,
    read_back=read_back,
    blocked=wants_group,
    choices={"bucket_mib": (BUCKET_MIB, 10, 100), "unused": ("none", "find")},
    excludes=frozenset({"deepspeed", "fsdp2", "cuda-graphs"}),
    nothing=HOW,
    hosts=frozenset({HostKind.ENGINE}),
    tolerance=1e-5,
    cosine=0.99999,
)
