"""Small jobs on which the engine tries techniques, and a session of one."""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from tests.golden.machines import cpu
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from hotloop.data.sampling.context_windows import Windows
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.batch import Batch
from hotloop.session.job import Job
from hotloop.session.session import Session

__all__ = ["Recomputing", "images", "recomputing", "session_of", "text"]


def text(*, dropout: float = 0.1, width: int = 64, kind: type[Gpt] = Gpt) -> Job:
    """Two blocks of a character model on the source of Python's textwrap."""
    source = inspect.getsource(textwrap)
    characters = sorted(set(source))
    ids = np.array([characters.index(c) for c in source], dtype=np.uint16)
    windows = Windows(ids, tokens_fingerprint="", context=32, seed=1, shuffle=True)
    shape = {"layers": 2, "heads": 4, "width": width, "context": 32}
    return Job(
        name="parity",
        model=lambda: kind(vocabulary=len(characters), dropout=dropout, **shape),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=1,
    )


class Recomputing(Gpt):
    """Recomputes its blocks by itself, as models of transformers do under the same flag."""

    gradient_checkpointing = True

    def forward(self, ids_BT: Tensor) -> Tensor:  # noqa: N803
        x = self.dropout(self.embed(ids_BT))
        for block in self.blocks:
            twice = self.gradient_checkpointing and self.training
            x = checkpoint(block, x, use_reentrant=False) if twice else block(x)
        return nn.functional.linear(self.norm(x), self.embed.weight)


def recomputing() -> Job:
    """A character model that recomputes by itself."""
    return text(kind=Recomputing)


class Images:
    """Noise over a pattern for each of four classes: [N, 3, 12, 12] and [N]; made, not kept."""

    fingerprint, in_memory = "made of a generator", False

    def __len__(self) -> int:
        return 160

    def ids(self, epoch: int, first: int, count: int) -> np.ndarray:
        return np.arange(first, first + count)

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        source = torch.Generator().manual_seed(1000 * epoch + first)
        labels = torch.randint(4, (count,), generator=source)
        patterns = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))
        images = patterns[labels] + torch.randn(count, 3, 12, 12, generator=source)
        tensors = {"images": images, "labels": labels}
        return Batch(tensors=tensors, samples=count, tokens=count, targets=count)


def convolutions() -> nn.Module:
    """No bias before a norm, which takes it off: its gradient is rounding and nothing else."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.GELU(),
        nn.Conv2d(32, 32, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(128, 4),
    )


def image_loss(model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
    return cross_entropy(model(tensors["images"]), tensors["labels"])


def images() -> Job:
    """A small convolutional net on samples that are not in memory."""
    samples = Images()
    return replace(text(), model=convolutions, loss=image_loss, train=samples, valid=samples)


def session_of(job: Callable[[], Job] = text) -> Session:
    """Return a session of a job on a CPU; its optimizer is not built yet."""
    made = job()
    model = made.model()
    return Session(
        job=made,
        hardware=cpu("avx2"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=2,
        accumulation=1,
        forward=lambda tensors: made.loss(model, tensors),
    )
