"""Examples of frozen-16bit."""

from dataclasses import replace

import torch
from tests.golden import jobs
from tests.golden.machines import NO_BF16
from tests.golden.techniques import Examples
from torch import Tensor, nn

from hotloop.core.plan import Plan
from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.in_16_bits import lower
from hotloop.session.job import Job
from hotloop.techniques import frozen_16bit


def job(kind: str = "dora") -> Job:
    """A character model that learns adapters under autocast, of a method that rounds otherwise."""
    plain = jobs.text()

    def model(dtype: torch.dtype | None = None, weights: bool = True) -> nn.Module:
        made = plain.model()
        if dtype is not None:
            lower(made, dtype, stored=None, is_filled=weights)
        attach(made, AdapterConfig(kind=kind, rank=4))
        for layer in adapted(made).values():  # with a B of zeros A has no gradient
            nn.init.normal_(layer.lora_B, std=0.02)
        return made

    def loss(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return plain.loss(model, tensors)

    return replace(plain, model=model, frozen=model, loss=loss)


def apply(session: object) -> int:
    """Store what a session built in float32, as the engine builds it."""
    session.model = job().frozen(torch.bfloat16, True)
    return frozen_16bit.apply(session)


EXAMPLES = Examples(
    blocked_on=NO_BF16,
    beside=Plan(micro_batch=1).plus("autocast-bf16"),
    says=r"\d+ frozen weights in bfloat16, [\d.]+ [KM]",
    job=job,
    apply=apply,
)
