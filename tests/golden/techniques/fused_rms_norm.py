"""Examples of fused-rms-norm."""

from dataclasses import replace

import torch
from tests.golden import jobs
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples
from torch import Tensor, nn

from hotloop.session.job import Job


class WrittenOut(nn.Module):
    """An RMS norm as transformers writes that of Llama and Qwen."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        low, x = x.dtype, x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(low)


def normed() -> Job:
    """A character model with RMS norms."""
    plain = jobs.text()

    def model() -> nn.Module:
        made = plain.model()
        for name, module in [*made.named_modules()]:
            if isinstance(module, nn.LayerNorm):
                made.set_submodule(name, WrittenOut(module.weight.numel()))
        return made

    return replace(plain, model=model)


EXAMPLES = Examples(
    blocked_on=NOT_CUDA,
    says=r"5 RMS norms in a fused kernel",
    job=normed,
)
