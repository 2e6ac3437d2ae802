"""Builds the cases of the golden files: a healthy run, and changes to it."""

from dataclasses import replace
from typing import Any

from hotloop.core.case.case import Case
from hotloop.core.case.objects import Model, Optimizer, ParameterGroup
from hotloop.core.case.steps_and_loaders import Frame, Loader, Stack, Steps
from hotloop.core.finding import SourceLocation
from hotloop.core.hardware import Hardware

CPU = Hardware(
    device="cpu", name="a CPU", cores=2.0, memory_bytes=16 << 30, cpu_features=frozenset({"avx2"})
)
CARD = Hardware(
    device="cuda",
    name="NVIDIA GeForce RTX 3090",
    cores=8.0,
    capability=(8, 6),
    memory_bytes=24 << 30,
)
SCRIPT = "/home/me/project/train.py"

# 1,000 steps of 10 ms: nothing to complain about.
WALL = {
    "start": 0.1,
    "import": 1.0,
    "data load": 0.1,
    "data wait": 0.1,
    "prepare": 0.05,
    "forward": 3.0,
    "backward": 6.0,
    "optimizer": 0.8,
    "after step": 0.02,
    "evaluate": 0.3,
    "save": 0.02,
    "log": 0.02,
}


def healthy(**changes: Any) -> Case:
    """A run that no rule has anything to say about, with `changes` to its fields."""
    case = Case(
        hardware=CPU,
        script=SCRIPT,
        wall=WALL,
        steps=Steps(
            count=1000,
            wall=(0.01,) * 1000,
            rows={"forward": (0.003,) * 1000, "backward": (0.006,) * 1000},
            numbers=tuple(range(1, 1001)),
            backwards=1.0,
            samples=32.0,
            losses=tuple((step, 2.0 - step / 1000) for step in range(1, 1001, 10)),
        ),
        epochs=2,
        loaders=(
            Loader(
                key=1,
                place=SourceLocation(file=SCRIPT, line=20),
                dataset="TensorDataset",
                length=16_000,
                batches=500,
                batch_size=32,
                shuffle=True,
                sampler="RandomSampler",
                iterations=2,
                in_memory=True,
                waits=(0.0001,) * 1000,
                first_waits=(0.0002, 0.0002),
            ),
        ),
        models=(Model(name="Net", parameters=100_000, trainable=100_000, bytes=400_000),),
        optimizers=(
            Optimizer(
                key=1,
                name="AdamW",
                place=SourceLocation(file=SCRIPT, line=30),
                groups=(ParameterGroup(parameters=100_000, tensors=8, fused=True),),
                steps=1000,
                rates=tuple((step, 1e-3) for step in range(1, 1001, 10)),
            ),
        ),
    )
    return replace(case, **changes)


def on_card(**changes: Any) -> Case:
    """The same on an RTX 3090."""
    model = Model(name="Net", parameters=100_000, trainable=100_000, device="cuda:0")
    return healthy(**{"hardware": CARD, "models": (model,), **changes})


def wall(**rows: float) -> dict[str, float]:
    """The wall time of the healthy run with some rows replaced; "_" stands for a space."""
    return {**WALL, **{name.replace("_", " "): seconds for name, seconds in rows.items()}}


def stack(row: str, seconds: float, *frames: tuple[str, int, str], samples: int = 50) -> Stack:
    """A stack, innermost frame first; files below /home/me/project are the project's own."""
    return Stack(
        row=row,
        seconds=seconds,
        samples=samples,
        frames=tuple(
            Frame(file=file, line=line, function=function, own=file.startswith("/home/me/project"))
            for file, line, function in frames
        ),
    )
