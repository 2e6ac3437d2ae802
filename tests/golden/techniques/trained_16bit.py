"""Examples of trained-16bit."""

from dataclasses import replace

import torch
from tests.golden import jobs
from tests.golden.machines import NO_BF16
from tests.golden.techniques import Examples
from torch import Tensor, nn

from hotloop.core.plan import Plan
from hotloop.models.adapters.in_16_bits import lower
from hotloop.session.job import Job
from hotloop.techniques import trained_16bit


def job() -> Job:
    """A character model, all of which is trained, under autocast."""
    plain = jobs.text()

    def model(dtype: torch.dtype, weights: bool) -> nn.Module:
        made = plain.model()
        lower(made, dtype, stored=None, is_filled=weights, is_trained=True)
        return made

    def loss(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return plain.loss(model, tensors)

    return replace(plain, trained=model, loss=loss)


def apply(session: object) -> int:
    """Store what a session built in float32, as the engine builds it."""
    session.model = job().trained(torch.bfloat16, True)
    return trained_16bit.apply(session)


EXAMPLES = Examples(
    blocked_on=NO_BF16,
    beside=Plan(micro_batch=1).plus("autocast-bf16").plus("adamw-8bit"),
    says=r"\d+ trained weights in bfloat16, [\d.]+ [KM]",
    job=job,
    apply=apply,
)
