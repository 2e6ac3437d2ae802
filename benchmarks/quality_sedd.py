"""A whole training by the authors' code of score entropy, for benchmarks.quality.

python -m benchmarks.quality_sedd CHECKOUT SETTINGS.json RESULT.json

CHECKOUT is louaaron/Score-Entropy-Discrete-Diffusion: its model, transition graph, noise, loss and
average of weights train here on the windows of hotloop's run, with the optimizer and the learning
rates of hotloop's settings. Its model needs the package flash-attn, which has no CPU form: torch's
own attention stands for its one function. Its autocast to bf16 is CUDA's; the CPU's stands for
that. Validations are hotloop's, of the averaged weights as the authors validate: the same noised
windows and the same bound for both.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import loops
from hotloop.engine.lr_schedule import schedule
from hotloop.recipes.building.optimizers import optimizer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

DECAY = 0.9999  # training.ema of the authors' config.yaml; less in the first steps


def _flash_attn() -> types.ModuleType:
    """Return a module with flash-attn's function for rows of one length, by torch's attention."""

    def packed(qkv: Tensor, cu_seqlens: Tensor, length: int, dropout: float, **_: Any) -> Tensor:
        assert not dropout
        q, k, v = (
            part.unflatten(0, (-1, length)).transpose(1, 2) for part in qkv.unbind(1)
        )  # [B, H, T, D] each
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(0, 1)

    module = types.ModuleType("flash_attn.flash_attn_interface")
    module.flash_attn_varlen_qkvpacked_func = packed  # type: ignore[attr-defined]
    return module


class _AsOurs(nn.Module):
    """The authors' model with the outputs of hotloop's: no ratio of the mask itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, sigma: Tensor) -> Tensor:
        """[B, T], [B] -> log score ratios [B, T, V]."""
        log_s: Tensor = self.model(ids, sigma)[..., :-1].float()
        return log_s


def trained(checkout: Path, settings: Sequence[str], marks: int) -> dict[str, Any]:
    """Train; return the curve of `marks` validations."""
    sys.path.insert(0, str(checkout))
    sys.modules["flash_attn"] = types.ModuleType("flash_attn")
    sys.modules["flash_attn.flash_attn_interface"] = _flash_attn()
    import graph_lib  # type: ignore[import-not-found]
    import losses  # type: ignore[import-not-found]
    import noise_lib  # type: ignore[import-not-found]
    from model import SEDD  # type: ignore[import-not-found]
    from model.ema import ExponentialMovingAverage  # type: ignore[import-not-found]

    parts = loops.assembly(tuple(settings), recipe="char-lm")
    config, job, steps = parts.request.config, parts.job, parts.steps
    sizes, training = config.model, config.training
    vocabulary = job.train.noise.vocabulary  # type: ignore[attr-defined]
    torch.manual_seed(config.seed)
    model = SEDD(
        {
            "graph": {"type": "absorb"},
            "tokens": vocabulary,
            "model": {
                "hidden_size": sizes.width,
                "cond_dim": 128,
                "n_blocks": sizes.layers,
                "n_heads": sizes.heads,
                "scale_by_sigma": True,
                "dropout": sizes.dropout,
            },
        }
    )
    noise, graph = noise_lib.LogLinearNoise(), graph_lib.Absorbing(vocabulary)
    loss_of = losses.get_loss_fn(noise, graph, train=True)
    optimizer = optimizer_of(training)(model)
    rates = schedule(
        training.schedule,
        peak=training.learning_rate,
        floor=training.min_learning_rate,
        warmup=training.warmup_steps,
        total=steps,
    )
    size = training.batch_size
    per_epoch = len(job.train) // size
    average = ExponentialMovingAverage(model.parameters(), decay=DECAY)
    curve, seconds = [], 0.0
    for step in range(steps):
        began = time.perf_counter()
        windows = job.train.windows.batch(step // per_epoch, step % per_epoch * size, size)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, windows.tensors["targets"]).mean() / sizes.context
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        for group in optimizer.param_groups:
            group["lr"] = rates(step)
        optimizer.step()
        optimizer.zero_grad()
        average.update(model.parameters())
        seconds += time.perf_counter() - began
        if (step + 1) % (steps // marks) == 0:
            point = {"step": step + 1, "seconds": seconds}
            average.store(model.parameters())
            average.copy_to(model.parameters())
            curve.append({**point, "loss": _bound(job, _AsOurs(model))})
            average.restore(model.parameters())
    return {"curve": curve, "parameters": sum(p.numel() for p in model.parameters())}


def _bound(job: Any, model: nn.Module) -> float:
    """Return the mean bound of the validation windows, nats per character."""
    total, size = 0.0, len(job.valid)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for at in range(0, size, 64):
            batch = job.valid.batch(0, at, min(64, size - at))
            total += float(job.loss(model, batch.tensors)) * batch.samples
    model.train()
    return total / size


def main(argv: list[str]) -> None:
    """Train and write what came of it."""
    checkout, order, result = map(Path, argv)
    told = json.loads(order.read_text())
    found = trained(checkout, told["settings"], told["marks"])
    found["peak_MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
