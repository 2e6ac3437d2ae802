"""Measures a step of two ranks on this machine (gloo, CPU) against what the model predicts for it.

Rows are taken by turns in one run: all-reduces of several sizes, the step of one rank while the
other sleeps, the step of both without a word, and the step of both under DistributedDataParallel.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.measure import BUSY, Load
from benchmarks.scaling_paper import BUCKET, Cluster, Link, all_reduce, buckets
from benchmarks.scaling_steps import Noise, Step, simulate
from hotloop.core.measurement import Measurement
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["fitted_link", "measured", "predicted"]

RANKS, ROUNDS, WARM = 2, 20, 3
BLOCKS, WIDTH, INNER, ROWS = 12, 512, 2048, 256
SIZES = (4, 1 << 16, 1 << 20, 1 << 23, BUCKET)  # bytes
LARGE = 1 << 20  # sizes from here on say the bandwidth

Readings = dict[str, list[float]]


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, INNER, bias=False), nn.GELU(), nn.Linear(INNER, WIDTH, bias=False)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + self.mlp(rows)  # type: ignore[no-any-return]


def _pass(model: nn.Module, rows: torch.Tensor) -> tuple[float, float]:
    """Return seconds of the forward and of the backward."""
    began = time.perf_counter()
    loss = model(rows).square().mean()
    middle = time.perf_counter()
    loss.backward()
    return middle - began, time.perf_counter() - middle


def _rank(rank: int, folder: str) -> None:
    """Take all readings in one rank and write them."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS
    )
    torch.manual_seed(0)
    plain = nn.Sequential(*(_Block() for _ in range(BLOCKS)))
    talking = DistributedDataParallel(
        nn.Sequential(*(_Block() for _ in range(BLOCKS))), gradient_as_bucket_view=True
    )
    rows = torch.randn(ROWS, WIDTH)
    sent = {size: torch.ones(size // 4) for size in SIZES}
    readings: dict[str, list[float]] = {}

    def keep(number: int, **values: float) -> None:
        for name, seconds in values.items() if number >= 0 else ():
            readings.setdefault(name, []).append(seconds)

    for number in range(-WARM, ROUNDS):
        for size, tensor in sent.items():
            distributed.barrier()
            began = time.perf_counter()
            distributed.all_reduce(tensor)
            keep(number, **{f"all-reduce {size}": time.perf_counter() - began})
        for name, model in (("alone", plain), ("silent", plain), ("ddp", talking)):
            model.zero_grad()
            distributed.barrier()
            if name == "alone" and rank:
                continue  # waits at the next barrier
            forward, backward = _pass(model, rows)
            keep(number, **{f"{name} forward": forward, f"{name} backward": backward})
    Path(folder, f"rank{rank}.json").write_text(json.dumps(readings))
    distributed.destroy_process_group()


def fitted_link(readings: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Return (start in seconds, bandwidth in bytes/s) of all-reduces of two ranks.

    For two ranks 2 (W - 1) / W is 1: seconds = start + bytes / bandwidth.
    """
    taken = {size: statistics.median(readings[f"all-reduce {size}"]) for size in SIZES}
    start = taken[SIZES[0]]
    rates = [size / (seconds - start) for size, seconds in taken.items() if size >= LARGE]
    return start, statistics.median(rates)


def predicted(forward: float, backward: float, cluster: Cluster) -> float:
    """Return the seconds that the simulation gives for the step, without noise."""
    gradients = [0.0, *[4.0 * 2 * WIDTH * INNER] * BLOCKS]
    step = Step(
        forward=[0.0, *[forward / BLOCKS] * BLOCKS],
        backward=[0.0, *[backward / BLOCKS] * BLOCKS],
        accumulation=1,
        optimizer=0.0,
        gathers=[],
        gradients=gradients,
    )
    return float(simulate(step, cluster, "ddp", noise=Noise(), steps=1, seed=0)[0])


def _compared(both: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    start, bandwidth = fitted_link(both[0])
    link = Link(bandwidth=bandwidth, hop=0.0)
    cluster = Cluster(
        name="here", gpu="cpu", machines=1, per_machine=RANKS, inside=link, between=link,
        start=start, flops=0.0, memory_bandwidth=0.0, memory_bytes=0.0,
    )  # fmt: skip
    slower = {
        name: [max(pair) for pair in zip(*(one[name] for one in both if name in one), strict=True)]
        for name in both[0]
    }
    middle = {name: statistics.median(values) for name, values in slower.items()}
    sizes = [int(4 * 2 * WIDTH * INNER)] * BLOCKS
    talk = sum(all_reduce(cluster, size) for size, *_ in buckets([*sizes, 0]))
    rounds = zip(slower["ddp forward"], slower["ddp backward"], strict=True)
    steps = [forward + backward for forward, backward in rounds]
    step = statistics.median(steps)
    silent = middle["silent forward"] + middle["silent backward"]
    guesses = {
        "from one rank alone": predicted(
            middle["alone forward"], middle["alone backward"], cluster
        ),
        "from two ranks that do not talk": predicted(
            middle["silent forward"], middle["silent backward"], cluster
        ),
        "the same, nothing overlapped": silent + talk,
    }
    return {
        "start_s": start,
        "bandwidth": bandwidth,
        "talk_s": talk,
        "alone_s": middle["alone forward"] + middle["alone backward"],
        "silent_s": silent,
        "step": Measurement(unit="s", readings=tuple(steps)).to_json(),
        "step_s": step,
        "predicted_s": guesses,
        "overlapped": (silent + talk - step) / talk,
        "error": {name: guess / step - 1 for name, guess in guesses.items()},
        "readings": slower,
    }


def measured(*, busy: bool) -> dict[str, Any]:
    """Return the comparison, with the load of the machine; a busy one needs `busy`."""
    before = Load.watched()
    if before > BUSY and not busy:
        raise SystemExit(f"other processes use {before:.2f} cores: wait, or go on with --busy")
    load = Load()
    with tempfile.TemporaryDirectory() as folder:
        spawn(_rank, (folder,), nprocs=RANKS)  # type: ignore[no-untyped-call]
        both = [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in range(RANKS)]
    others = load.others()
    machine = detect("cpu")
    return {
        "what": f"{BLOCKS} blocks {WIDTH} -> {INNER} -> {WIDTH}, {ROWS} rows a rank, fp32, "
        f"{RANKS} ranks of one thread, gloo",
        "machine": f"{machine.name}, {machine.cores:g} cores",
        "torch": torch.__version__,
        "rounds": ROUNDS,
        "others_cores": {"before": round(before, 2), "during": round(others, 2)},
        "busy": max(before, others) > BUSY,
        **_compared(both),
    }
