"""Matrices that are trained are stored in bfloat16, and updates are rounded stochastically.

What: loads the matrices of a model that is trained whole in bfloat16; norms and biases stay
    float32. Their gradients have 16 bits as well. An update is rounded to one of the two nearest
    numbers, to the nearer one more often, so that small updates count on average.
Helps when: a whole model is trained that is too large for the memory: a weight takes 4 bytes with
    its gradient, in place of 12 with the copy that autocast makes.
Does not help when: the memory suffices. A sum of gradients over micro batches has 8 bits of
    mantissa, so few large micro batches are better than many small ones.
Numbers: training. Without chance a weight in bfloat16 does not move if its update is below 0.2 % of
    it. Needs adamw-8bit, which rounds so. `preset=auto` takes it for a model that does not fit
    otherwise, and says so.
Measured: with adamw-8bit:state=host Qwen3-4B is trained whole in 20.2 GiB and Qwen3-1.7B in 9.7, in
    place of 75.7 and 33.8 forecast (rows of 1,024 tokens, the allocator of torch 2.11 on a
    simulated RTX 4090; benchmarks/large_models.py). Validation loss of a character model 1.910
    (float32 1.918, spread 0.03; benchmarks/adamw_8bit.py). Speed on a GPU: not measured.
Source: Zamirai et al. 2020, https://arxiv.org/abs/2010.06192
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique
from hotloop.techniques.frozen_16bit import stored

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["ID", "TECHNIQUE"]

ID = "trained-16bit"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse plans without products in bfloat16, or without the optimizer that rounds by chance."""
    if plan.choice("autocast-bf16") is None or hardware.why_no_bf16() is not None:
        return "products are not in bfloat16 here: take autocast-bf16 as well"
    if plan.choice("adamw-8bit") is None:
        return "only the optimizer of adamw-8bit rounds by chance: take it as well"
    return None


def apply(session: Session) -> int:
    """Count the matrices that were loaded in 16 bits: the job's model is built so."""
    from hotloop.models.adapters.in_16_bits import lowered

    return len(lowered(session.model, trained=True))


def read_back(session: Session) -> str | None:
    """Read the dtypes of the model's trained matrices."""
    from hotloop.models.adapters.in_16_bits import lowered

    return stored(lowered(session.model, trained=True).values(), "trained weight")


TECHNIQUE = Technique(
    id=ID,
    title="Trained weights in 16 bits",
    stage=Stage.MODEL,
    numerics=Numerics.TRAINING,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="the model is not a pretrained one that is trained whole",
    hosts=frozenset({HostKind.ENGINE}),
)
