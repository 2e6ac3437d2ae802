"""DeepSpeed ZeRO: AdamW's state, then gradients and weights in pieces over several GPUs.

What: DeepSpeed cuts the state of hotloop's AdamW into one piece a GPU, which updates its part of
    the weights and hands them around; with stage=2 a GPU keeps its part of the gradients after
    a window, and with stage=3 of the weights, which are gathered before they compute. Gradients
    are exchanged once, at the end of a window, and until then a GPU has them whole. An extra:
    pip install 'hotloop[deepspeed]'.
Helps when: weights and gradients fit one GPU and AdamW's state beside them does not: 8 of the 16
    bytes of each number become 8/N (stage=1).
Does not help when: all of it fits (ddp), or the weights do not (fsdp2, which sends less than
    stage=3 and needs no other package). It takes neither compile nor an optimizer but AdamW.
Numbers: rounding: sums over the batch are made in another order. Dropout draws other masks than
    on one GPU, for each rank has a random stream of its own. What no loss uses in a step has a
    gradient of zeros, with which AdamW goes on; alone, AdamW leaves it as it is.
Measured: stage 1 on two gloo ranks of one core each takes 0.57 of the step of one rank on one core,
    quartiles 0.57-0.63 (n 4; 304 and 527 ms; ddp 0.54, fsdp2 0.67; char-lm 4 x 256, 16 x 128 tokens
    a step, float32, AMD EPYC, torch 2.13, DeepSpeed 0.19.8; benchmarks/several.py); stages 2 and 3
    and GPUs: not measured.
Source: Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054;
    https://deepspeed.readthedocs.io/en/latest/zero3.html
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from hotloop.core.sharding_ids import HOW, wants_group
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE", "why_not_installed"]

STAGES = (1, 2, 3)
SERIES = "0.19"  # of DeepSpeed; some of the API in use is undocumented and may change
FIRST = 8  # first patch of that series: 0.19.8 was tried (2026-11), older ones were not


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse fp16, unknown stages, a single process, and versions of DeepSpeed never tried."""
    if plan.choice("autocast-fp16") is not None:
        return "the fp16 loss scaler looks at each rank's own gradients: use ddp, or bf16"
    if (plan.choice("deepspeed") or {}).get("stage", 1) not in STAGES:
        return f"the stages of ZeRO are {', '.join(map(str, STAGES))}"
    return wants_group(hardware, plan) or why_not_installed()


def why_not_installed() -> str | None:
    """Return a sentence on what to install, or None if DeepSpeed is usable."""
    how = "pip install 'hotloop[deepspeed]'"
    try:
        version = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        return f"deepspeed is missing: {how}"
    series, _, patch = version.partition("+")[0].rpartition(".")
    if series == SERIES and patch.isdigit() and int(patch) >= FIRST:
        return None
    tried = f"{SERIES}.{FIRST} was, and later {SERIES} are taken"
    return f"deepspeed {version} was not tried: {tried}; {how}"


def apply(session: Session, *, stage: int = 1) -> int:
    """Shard the optimizer; return the number of pieces this rank updates, 0 if it is not AdamW.

    Raises PlanError for stage 3 with DoRA or with quantised weights.
    """
    from torch.optim import AdamW

    from hotloop.core.errors import PlanError
    from hotloop.distributed.zero import WEIGHTS, Zero

    if not isinstance(session.optimizer, AdamW):
        return 0
    if stage == WEIGHTS and session.job.steady is not None:
        raise PlanError(
            "deepspeed(stage=3): this model takes norms of its weights (DoRA) outside of the "
            "passes, when no GPU has them whole: take stage=1 or stage=2"
        )
    if stage == WEIGHTS and not all(p.is_floating_point() for p in session.model.parameters()):
        raise PlanError("deepspeed(stage=3) cuts no quantised weights: take stage=1 or stage=2")
    zero = Zero(session, stage=stage)
    session.parallel.sync = session.parallel.sharded_optimizer = zero
    session.undo["deepspeed"] = zero.close
    session.wrapped.append(f"ZeRO-{stage}")
    return len(zero.flats())


def read_back(session: Session) -> str | None:
    """Count the parameters that this rank updates."""
    from hotloop.distributed.zero import Zero

    zero = session.parallel.sync
    if not isinstance(zero, Zero) or session.forward is not zero.module:
        return None
    mine = sum(flat.numel() for flat in zero.flats())
    whole = sum(zero.shape(parameter).numel() for parameter in zero.trained())
    group = session.parallel.group
    return (
        f"{group.world} ranks, ZeRO-{zero.stage}: rank {group.rank} updates "
        f"{mine / whole:.0%} of what is trained"
    )


TECHNIQUE = Technique(
    id="deepspeed",
    title="DeepSpeed ZeRO",
    stage=Stage.OPTIMIZER,
    numerics=Numerics.ROUNDING,
    apply=apply,
    read_back=read_back,
    blocked=blocked,
    choices={"stage": STAGES},
    excludes=frozenset(
        {
            "activation-offload",
            "adamw-8bit",
            "autocast-fp16",
            "ddp",
            "fsdp2",
            "compile",
            "cuda-graphs",
        }
    ),
    nothing=f"{HOW}; of the optimizers only AdamW is cut",
    hosts=frozenset({HostKind.ENGINE}),
    tolerance=1e-5,
    cosine=0.99999,
)
