"""Training on 1, 8 and 64 GPUs, by closed formulas and by simulation; nothing of it is measured.

python -m benchmarks.scaling             writes the cases to results/scaling.json
python -m benchmarks.scaling measured    two ranks here against the same formulas [--busy]
python -m benchmarks.scaling docs        writes the tables of the guide several-cards from the JSON
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import scaling_forecasts, scaling_page
from benchmarks.scaling_paper import (
    GATHERED,
    Cluster,
    Link,
    Model,
    adamw_seconds,
    checkpoint_bytes,
    checkpoint_seconds,
    memory,
    sent_seconds,
    work,
)
from benchmarks.scaling_sources import FIGURES, value
from benchmarks.scaling_steps import Noise, Step, simulate
from hotloop.core.gpu_specs import find_gpu
from hotloop.core.storage.files import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CASES", "CLUSTERS", "MODELS", "RESULT", "row", "step_of"]

RESULT = Path(__file__).parent / "results" / "scaling.json"
STEPS, SEED = 200, 1
H100, A100, RTX = "H100 HBM3", "A100 80GB SXM4", "RTX 4090"
SMALL = 1e9  # numbers below which a model reaches the smaller share of the peak


def _cluster(name: str, machines: int, per_machine: int, inside: str, net: str) -> Cluster:
    """Return GPUs of core/gpu_specs.py, joined by links of scaling_sources."""
    known = find_gpu(name)
    assert known is not None
    assert known.bandwidth is not None
    hop = "hop_pcie" if inside == "pcie4" else "hop_nvlink"
    gpu = " ".join(name.split()[:2]) if name == RTX else name.split()[0]
    return Cluster(
        name=f"{machines * per_machine} x {gpu}" + (f", {net[3:]} Gb/s" if machines > 1 else ""),
        gpu=gpu,
        machines=machines,
        per_machine=per_machine,
        inside=Link(bandwidth=value(f"{inside}_reached"), hop=value(hop)),
        between=Link(bandwidth=value(f"{net}_reached"), hop=value("hop_net")),
        start=value("start"),
        flops=known.flops["bf16"],
        memory_bandwidth=known.bandwidth,
        memory_bytes=known.memory_bytes,
    )


CLUSTERS = {
    "h100": _cluster(H100, 1, 1, "nvlink4", "net400"),
    "h100x8": _cluster(H100, 1, 8, "nvlink4", "net400"),
    "h100x64": _cluster(H100, 8, 8, "nvlink4", "net400"),
    "h100x64slow": _cluster(H100, 8, 8, "nvlink4", "net100"),
    "a100x8": _cluster(A100, 1, 8, "nvlink3", "net100"),
    "4090": _cluster(RTX, 1, 1, "pcie4", "net100"),
    "4090x8": _cluster(RTX, 1, 8, "pcie4", "net100"),
}

_QWEN = Model(  # benchmarks/preset_forecasts.py has its config.json
    name="Qwen3-0.6B", layers=28, width=1024, heads=16, kv_heads=8, head_width=128, inner=3072,
    matrices=3, vocabulary=151_936, tied=True,
)  # fmt: skip
MODELS = {
    "char-lm": Model(  # model.layers=12 model.heads=12 model.width=768 model.context=1024
        name="char-lm 12 x 768", layers=12, width=768, heads=12, kv_heads=12, head_width=64,
        inner=3072, matrices=2, vocabulary=96, tied=True,
    ),
    "lora": replace(_QWEN, name="Qwen3-0.6B, LoRA", adapter=10_092_544),  # rank 16, all products
    "qwen": _QWEN,
    "llama": Model(  # https://huggingface.co/meta-llama/Llama-3.1-8B, config.json
        name="Llama 3.1 8B", layers=32, width=4096, heads=32, kv_heads=8, head_width=128,
        inner=14_336, matrices=3, vocabulary=128_256, tied=False, recompute=True,
    ),
}  # fmt: skip
# model, scheme, samples a step over all ranks, tokens a sample, clusters
_H100S = ("h100", "h100x8", "h100x64", "h100x64slow")
CASES: tuple[tuple[str, str, int, int, tuple[str, ...]], ...] = (
    ("char-lm", "ddp", 512, 1024, (*_H100S, "4090", "4090x8")),
    ("lora", "ddp", 128, 1024, (*_H100S, "4090", "4090x8")),
    ("qwen", "ddp", 256, 1024, (*_H100S, "4090", "4090x8")),
    ("qwen", "fsdp2", 256, 1024, ("h100x8", "h100x64", "h100x64slow", "4090x8")),
    ("llama", "fsdp2", 256, 4096, (*_H100S, "a100x8", "4090x8")),
)


def step_of(
    model: Model, cluster: Cluster, scheme: str, samples: int, micro: int, context: int
) -> Step:
    """Return the work of one rank in a step of `samples` over all ranks."""
    share = value("share_small" if model.numbers < SMALL else "share_large")
    rate = cluster.flops * share
    forward, backward, head, head_back = work(model, micro * context, context)
    shards = 1 if scheme == "ddp" else cluster.ranks
    blocks = model.layers
    *units, tables = model.gradients()
    return Step(
        forward=[head / rate, *[forward / rate] * blocks],
        backward=[head_back / rate, *[backward / rate] * blocks],
        accumulation=samples // (cluster.ranks * micro),
        optimizer=adamw_seconds(model, cluster, shards, value("memory_share")),
        gathers=[GATHERED * model.tables, *[GATHERED * model.block] * blocks],
        gradients=[tables, *units],
    )


def _micro(model: Model, cluster: Cluster, scheme: str, samples: int, context: int) -> int:
    """Return the largest micro batch, a power of two, that fits and divides the rank's samples."""
    budget = cluster.memory_bytes * value("memory_left")
    each, best, tried = samples // cluster.ranks, 0, 1
    while each % tried == 0 and tried <= each:
        need = memory(model, scheme, cluster.ranks, tried * context)
        best, tried = (tried, tried * 2) if sum(need.values()) <= budget else (best, each + 1)
    return best


def row(
    model: Model, cluster: Cluster, scheme: str, samples: int, context: int, *, micro: int = 0
) -> dict[str, Any]:
    """Return one case: memory and checkpoint on paper, the step on paper and by simulation."""
    scheme = scheme if cluster.ranks > 1 else "ddp"  # one GPU keeps everything as well
    best = micro or _micro(model, cluster, scheme, samples, context)
    need = memory(model, scheme, cluster.ranks, max(best, 1) * context)
    found: dict[str, Any] = {
        "model": model.name,
        "by": scheme if cluster.ranks > 1 else "-",
        "cluster": cluster.name,
        "gpus": cluster.ranks,
        "samples": samples,
        "context": context,
        "micro_batch": max(best, 1),
        "fits": best > 0,
        "memory": need,
        "checkpoint_s": checkpoint_seconds(model, cluster.machines, value("disk")),
    }
    step = step_of(model, cluster, scheme, samples, max(best, 1), context)
    per_micro = sum(step.forward) + sum(step.backward)
    compute = step.accumulation * per_micro + step.optimizer
    noise = Noise(block=value("jitter_block"), rank=value("jitter_rank"))
    seconds = simulate(step, cluster, scheme, noise=noise, steps=STEPS, seed=SEED)
    free = replace(
        cluster, start=0.0, inside=Link(bandwidth=float("inf"), hop=0.0),
        between=Link(bandwidth=float("inf"), hop=0.0),
    )  # fmt: skip
    silent = simulate(step, free, scheme, noise=noise, steps=STEPS, seed=SEED)
    low, middle, high = statistics.quantiles(map(float, seconds), n=4, method="inclusive")
    sent = sent_seconds(model, cluster, scheme, step.accumulation)
    return found | {
        "accumulation": step.accumulation,
        "compute_s": compute,
        "sent_s": sent,
        "paper_s": [compute, compute + sent],  # all overlapped, nothing overlapped
        "step_s": [low, middle, high],
        "exposed": statistics.median(map(float, 1 - silent / seconds)),
        "samples_per_s": samples / middle,
    }


def _rows() -> Iterator[dict[str, Any]]:
    """Yield every case with its efficiency against one GPU with enough memory."""
    for name, scheme, samples, context, clusters in CASES:
        model, alone = _forecast(name, context), dict[str, float]()
        for key in clusters:
            cluster = CLUSTERS[key]
            found = row(model, cluster, scheme, samples, context) | {"case": name}
            if cluster.gpu not in alone:
                one = replace(cluster, machines=1, per_machine=1)
                micro = found["micro_batch"]
                base = row(model, one, scheme, samples, context, micro=micro)
                alone[cluster.gpu] = base["samples_per_s"]
            perfect = cluster.ranks * alone[cluster.gpu]
            yield found | {"efficiency": found["samples_per_s"] / perfect}


@cache
def _forecast(name: str, context: int) -> Model:
    """Return the model with what its activations are forecast to take."""
    model = MODELS[name]
    lora = bool(model.adapter)
    a_token = (
        scaling_forecasts.lora_bytes_a_token()
        if lora
        else scaling_forecasts.bytes_a_token(model, context)
    )
    logits = 0.0 if name == "char-lm" else scaling_forecasts.logits_bytes()
    return replace(model, activation_bytes=a_token, logits_bytes=logits)


def _states() -> Iterator[dict[str, Any]]:
    """Yield the memory of each scheme on 8 and 64 ranks, without activations."""
    for name in ("qwen", "llama"):
        for ranks in (8, 64):
            for scheme in ("ddp", "zero1", "zero2", "zero3", "fsdp2"):
                need = memory(MODELS[name], scheme, ranks, 0)
                about = {"model": MODELS[name].name, "ranks": ranks, "scheme": scheme}
                yield about | {"bytes": sum(need.values()), "memory": need}


def _published() -> dict[str, Any]:
    """Return torchtitan's loss of speed from 8 to 128 H100 beside the simulated one."""
    model = replace(MODELS["llama"], recompute=False)  # selective: little is computed again
    rates = []
    for machines in (1, 16):
        cluster = replace(CLUSTERS["h100x8"], machines=machines)
        samples = 2 * cluster.ranks
        found = row(model, cluster, "fsdp2", samples, 8192, micro=2)
        rates.append(found["samples_per_s"] * 8192 / cluster.ranks)
    return {
        "what": "Llama 3.1 8B, fsdp2, 2 x 8192 tokens a GPU: tokens/s a GPU on 128 over 8 H100",
        "where": FIGURES["share_large"].where,
        "published": [5605 / 5762, 6514 / 6667],  # without and with torch.compile
        "published_tokens_per_s": [[5762, 5605], [6667, 6514]],
        "simulated": rates[1] / rates[0],
        "simulated_tokens_per_s": rates,
    }


def made() -> dict[str, Any]:
    """Return everything that is not measured."""
    return {
        "schema": 1,
        "steps": STEPS,
        "seed": SEED,
        "figures": {name: figure.to_json() for name, figure in FIGURES.items()},
        "clusters": {name: asdict(cluster) for name, cluster in CLUSTERS.items()},
        "models": {
            name: asdict(_forecast(name, context))
            | {"numbers": MODELS[name].numbers, "trained": MODELS[name].trained}
            | {"checkpoint_bytes": checkpoint_bytes(MODELS[name])}
            for name, _, _, context, _ in CASES
        },
        "rows": list(_rows()),
        "states": list(_states()),
        "published": _published(),
    }


def main(words: Sequence[str]) -> None:
    """Do what the first word says."""
    command = words[0] if words else "cases"
    before = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    if command == "docs":
        scaling_page.write(before)
    elif command == "measured":
        from benchmarks.scaling_gloo import measured

        busy = "--busy" in words
        before["measured"] = measured(busy=busy)
        if busy or not before["measured"]["busy"]:
            write_json(RESULT, before)
        else:
            print("others worked meanwhile: not kept; --busy keeps it, marked", file=sys.stderr)
        print("\n".join(scaling_page.comparison(before)))
    elif command == "cases":
        write_json(RESULT, {**before, **made()})
        print("\n".join(scaling_page.steps(json.loads(RESULT.read_text()))))
    else:
        sys.exit(f"expected cases, measured or docs, got {command!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
