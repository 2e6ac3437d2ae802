"""How far each technique moves losses and gradients: where `tolerance` and `cosine` come from.

    PYTHONPATH=src OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.rounding [ID ...]

Trains char models of three sizes with dropout for STEPS steps of the engine's own warm-up, plain
and with each technique, prints the largest deviations and writes them to benchmarks/results/. What
is about convolutions trains the net of benchmarks/images.py; what is about frozen weights trains
DoRA on the char models, under autocast in both runs; what is about RMS norms trains a Qwen3, also
under autocast; what is about padding trains an encoder of rows of several lengths under a mask,
without dropout, whose masks go by shape. Three techniques are looked at through their arithmetic:
fp16 autocast with its gate taken away (a step that its scaler skips counts in the losses after it),
TF32 by rounding what goes into matrix products to 10 bits of mantissa, and oneDNN by products in
float64, rounded once: another library is as far from the first one's sums.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import images
from hotloop import techniques
from hotloop.core.plan import Plan, Use
from hotloop.core.storage.files import read_json, write_json
from hotloop.data.sampling.context_windows import Windows
from hotloop.engine.apply_plan import prepare
from hotloop.engine.lr_schedule import schedule
from hotloop.engine.step import NonFiniteGuard, accumulate, update
from hotloop.machine.detect import detect
from hotloop.models.adapters.attach import adapted as adapters_on
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.accumulation_windows import AccumulationWindows, Position
from hotloop.session.job import Job
from hotloop.techniques.base import anywhere

RESULT = Path(__file__).parent / "results" / "rounding-cpu.json"
STEPS = 10
SIZES = ((2, 64, 4, 32), (4, 128, 4, 64), (6, 384, 6, 256))  # layers, width, heads, context
SEEDS = (1, 2, 3)
USES = (
    Use.of("activation-checkpointing", mode="full"),
    Use.of("activation-checkpointing", mode="selective"),
    Use.of("autocast-bf16"),
    Use.of("autocast-fp16"),
    Use.of("compile"),
    Use.of("fused-adamw"),
    Use.of("matmul-onednn"),
    Use.of("sdpa", backend="math"),
    Use.of("sdpa", backend="naive"),
    Use.of("tf32"),
    Use.of("threads", count=2),
)
OF_IMAGES = (Use.of("channels-last"),)
OF_FROZEN = (Use.of("frozen-16bit"),)
OF_NORMS = (Use.of("fused-rms-norm"),)
OF_PADDING = Use.of("dynamic-padding")
RATE = schedule("cosine", peak=1e-3, floor=1e-4, warmup=100, total=5000)  # char-lm's defaults
KNOWN = [replace(t, blocked=anywhere) for t in techniques.ALL]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a few steps did."""

    losses: list[float]
    norms: list[float]  # of the gradients, before clipping
    gradients: dict[str, torch.Tensor]  # of the first step, unscaled


class Products(TorchDispatchMode):
    """Runs float32 matrix products as a technique would that this machine does not have."""

    def __init__(self, like: str) -> None:
        super().__init__()
        self.like = like

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        if func.__name__ not in ("mm.default", "bmm.default", "addmm.default"):
            return func(*args, **(kwargs or {}))
        if self.like == "tf32":
            return func(*args[:-2], *(_tf32(tensor) for tensor in args[-2:]), **(kwargs or {}))
        return func(*(tensor.double() for tensor in args), **(kwargs or {})).float()


def _tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Round to nearest even."""
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def job(size: tuple[int, int, int, int], seed: int) -> Job:
    """Return a character model on the source of Python's textwrap."""
    layers, width, heads, context = size
    text = inspect.getsource(textwrap)
    characters = sorted(set(text))
    ids = np.array([characters.index(c) for c in text], dtype=np.uint16)
    windows = Windows(ids, tokens_fingerprint="", context=context, seed=seed, shuffle=True)
    shape = {"layers": layers, "width": width, "heads": heads, "context": context}
    return Job(
        name="rounding",
        model=lambda: Gpt(vocabulary=len(characters), dropout=0.2, **shape),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=seed,
    )


def adapted(job: Job) -> Job:
    """Return a job that learns DoRA on the model of another one, under autocast."""

    def model(dtype: torch.dtype | None = None, weights: bool = True) -> torch.nn.Module:
        made = job.model()
        if dtype is not None:
            lower(made, dtype, stored=None, is_filled=weights)
        attach(made, AdapterConfig(kind="dora", rank=8))
        for layer in adapters_on(made).values():  # with a B of zeros A has no gradient
            torch.nn.init.normal_(layer.trained()["lora_B.weight"], std=0.02)
        return made

    def loss(model: torch.nn.Module, tensors: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return job.loss(model, tensors)

    return replace(job, model=model, frozen=model, loss=loss)


def qwen(job: Job, size: tuple[int, int, int, int]) -> Job:
    """Return a job that learns the same with a Qwen3, under autocast."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    layers, width, heads, context = size

    def model() -> torch.nn.Module:
        config = Qwen3Config(
            vocab_size=128,
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=width // heads,
            max_position_embeddings=context,
        )
        made: torch.nn.Module = Qwen3ForCausalLM(config)
        return made

    def loss(model: Any, tensors: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=tensors["inputs"].long()).logits
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tensors["targets"].flatten()
        )

    return replace(job, model=model, loss=loss)


def trace(job: Job, use: Use | None) -> Trace:
    """Train STEPS steps of 4 samples each."""
    plan = Plan(micro_batch=4, techniques=(use,) if use else ())
    emulated = use.id if use is not None and use.id in ("tf32", "matmul-onednn") else None
    session, _ = prepare(job, plan, detect(), {}, known=KNOWN)
    feed = AccumulationWindows(samples=job.train, batch_size=4, drop_last=True)
    at, guard, losses, norms, gradients = Position(), NonFiniteGuard(session), [], [], {}
    for step in range(STEPS):
        for group in session.optimizer.param_groups:
            group["lr"] = RATE(step)
        with Products(emulated) if emulated else contextlib.nullcontext():
            loss = accumulate(session, feed.window(at, 4), str, int)
        if not gradients:
            scale = session.scaler.get_scale() if session.scaler else 1.0
            found = session.model.named_parameters()
            gradients = {
                name: p.grad.double().flatten() / scale for name, p in found if p.grad is not None
            }
        norms.append(update(session, guard, loss, 1.0).item())
        losses.append(loss.item())
        at = feed.after(at)
    for undo in reversed(session.undo.values()):
        undo()
    return Trace(losses=losses, norms=norms, gradients=gradients)


def padded(size: tuple[int, int, int, int], seed: int, *, cut: bool) -> Trace:
    """Train an encoder on rows of 4 to half the context, padded to it or cut to the longest."""
    layers, width, heads, context = size
    torch.manual_seed(seed)
    kind = torch.nn.TransformerEncoderLayer
    layer = kind(width, heads, 4 * width, dropout=0.0, batch_first=True)
    model = torch.nn.ModuleDict(
        {
            "words": torch.nn.Embedding(64, width),
            "layers": torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
            "head": torch.nn.Linear(width, 2),
        }
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses, norms, gradients = [], [], dict[str, torch.Tensor]()
    for _ in range(STEPS):
        lengths = torch.randint(4, context // 2, (8,))
        ids, kinds = torch.randint(1, 64, (8, context)), torch.randint(2, (8,))
        wide = int(-(-lengths.max() // 8) * 8) if cut else context
        real = torch.arange(wide)[None] < lengths[:, None]
        found = model["layers"](model["words"](ids[:, :wide]), src_key_padding_mask=~real)
        mean = (found * real[..., None]).sum(1) / lengths[:, None]
        loss = torch.nn.functional.cross_entropy(model["head"](mean), kinds)
        optimizer.zero_grad()
        loss.backward()
        flat = {n: p.grad.double().flatten() for n, p in model.named_parameters()}
        gradients = gradients or flat
        norms.append(torch.cat(list(flat.values())).norm().item())
        losses.append(loss.item())
        optimizer.step()
    return Trace(losses=losses, norms=norms, gradients=gradients)


def deviation(plain: Trace, other: Trace) -> dict[str, float]:
    """Return the largest relative deviations, and 1 - the smallest cosine."""
    relative = [
        max(abs(b / a - 1) for a, b in zip(mine, theirs, strict=True) if math.isfinite(b))
        for mine, theirs in ((plain.losses, other.losses), (plain.norms, other.norms))
    ]
    cosines = [cosine_similarity(g, other.gradients[n], 0) for n, g in plain.gradients.items()]
    return {"loss": relative[0], "norm": relative[1], "1-cosine": 1 - min(cosines).item()}


def main() -> None:
    """Measure the techniques named (or all), print and write."""
    every = (*USES, *OF_IMAGES, *OF_FROZEN, *OF_NORMS, OF_PADDING)
    asked = sys.argv[1:] or [use.id for use in every]
    worst: dict[str, dict[str, float]] = {str(use): {} for use in every if use.id in asked}
    jobs = [
        (f"{size} seed {seed}", job(size, seed), USES)
        for size in SIZES
        for seed in (SEEDS if size[0] < 6 else SEEDS[:1])
    ]
    jobs += [(f"adapters, {name}", adapted(made), OF_FROZEN) for name, made, _ in jobs]
    jobs += [
        (f"qwen3, {size} seed {seed}", qwen(job(size, seed), size), OF_NORMS)
        for size in SIZES
        for seed in (SEEDS if size[0] < 6 else SEEDS[:1])
    ]
    jobs += [(f"images seed {seed}", images.job(seed), OF_IMAGES) for seed in SEEDS]
    for size in SIZES if OF_PADDING.id in asked else ():
        for seed in SEEDS:
            found = deviation(padded(size, seed, cut=False), padded(size, seed, cut=True))
            row = worst[str(OF_PADDING)]
            row |= {key: max(value, row.get(key, 0.0)) for key, value in found.items()}
    for name, made, uses in jobs:
        if not any(use.id in asked for use in uses):
            continue
        plain = trace(made, None)
        for use in (use for use in uses if use.id in asked):
            found = deviation(plain, trace(made, use))
            row = worst[str(use)]
            row |= {key: max(value, row.get(key, 0.0)) for key, value in found.items()}
            print(f"{name} {use!s:24}", *(f"{k} {v:.1e}" for k, v in found.items()), flush=True)
    known = {} if not sys.argv[1:] or not RESULT.exists() else read_json(RESULT)["worst"]
    value = {
        "schema": 1,
        "hardware": detect().to_json(),
        "steps": STEPS,
        "sizes": SIZES,
        "worst": {**known, **worst},
    }
    write_json(RESULT, value)
    for name, row in worst.items():
        print(f"worst {name:24}", *(f"{key} {number:.1e}" for key, number in row.items()))


if __name__ == "__main__":
    main()
