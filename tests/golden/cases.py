"""Builds the cases of the golden files: a healthy run, observed or planned, and changes to it."""

from dataclasses import replace
from typing import Any

from hotloop.core.case.case import Case
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model, Optimizer, ParameterGroup
from hotloop.core.case.planned_run import (
    MachineState,
    MemoryForecast,
    PlannedData,
    PlannedRun,
    RowFacts,
    RunSettings,
    TextFacts,
    TimeForecast,
    ValidationSize,
)
from hotloop.core.case.steps_and_loaders import Frame, Loader, Stack, Steps
from hotloop.core.finding import SourceLocation
from hotloop.core.hardware import Hardware

CPU = Hardware(
    device="cpu", name="a CPU", cores=2.0, memory_bytes=16 << 30, cpu_features=frozenset({"avx2"})
)
GPU = Hardware(
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


def on_gpu(**changes: Any) -> Case:
    """The same on an RTX 3090."""
    model = Model(name="Net", parameters=100_000, trainable=100_000, device="cuda:0")
    return healthy(**{"hardware": GPU, "models": (model,), **changes})


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


# A planned run of 100 s: no rule has anything to say about it either.
PLANNED = PlannedRun(
    folder="/home/me/runs",
    free_bytes=100 << 30,
    settings=RunSettings(
        steps=1000,
        steps_per_epoch=500,
        batch_size=32,
        accumulation=1,
        learning_rate=1e-3,
        parameters=100_000,
        from_scratch=True,
        warm_up=100,
        patience=None,
        max_time=None,
        eval_interval="training.eval_every_steps=100",
        eval_each_epoch=False,
        save_every=600.0,
        save_every_steps=None,
        keep=2,
        checkpoint_bytes=1 << 20,
        needed_bytes=4 << 20,
    ),
    memory=MemoryForecast(peak_bytes=15 << 30, sentence="15 GiB forecast"),
    time=TimeForecast(
        rows={
            "start": 5.0,
            "compile": 0.0,
            "data wait": 3.0,
            "step": 79.0,
            "evaluate": 10.0,
            "save": 3.0,
        },
        steps=1000,
        step=0.082,
        validations=10,
        validation_batches=100.0,
        saves=2.0,
    ),
    data=PlannedData(
        kind="characters",
        samples=16_000,
        per_epoch=16_000,
        in_memory=True,
        validation=ValidationSize(rows=2000, targets=32_000),
        text=TextFacts(
            context=16,
            train=256_000,
            valid=32_000,
            by_next_char=True,
            limit=None,
            limit_origin=None,
            unseen=0,
            most_unseen={},
            looked_at=256_000,
            line=40,
        ),
    ),
)
ROWS = RowFacts(max_length=512, tokens=1_000_000, cut=0, leaked=0.0)
MACHINE = MachineState(
    free_device_bytes=None,
    free_host_bytes=8 << 30,
    shm_bytes=8 << 30,
    disk="/home/me/.cache",
    disk_write=1e9,
    disk_read=2e9,
    disk_timed_bytes=64 << 20,
    unfit_build=None,
)


def planned(case: Case | None = None, **changes: Any) -> Case:
    """A run that is planned; `changes` are fields of its parts: settings={"steps": 10}."""
    parts = {
        name: replace(getattr(PLANNED, name), **change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    made = case or Case(hardware=CPU, script="hotloop train char-lm", wall={}, steps=Steps(count=0))
    return replace(made, planned=replace(PLANNED, **parts))


def of_rows(kind: str, validation: ValidationSize | None = None, **changes: Any) -> Case:
    """The same of rows of tokens; `changes` are fields of its RowFacts."""
    data = {
        "kind": kind,
        "validation": validation or ValidationSize(rows=100_000),
        "text": None,
        "rows": replace(ROWS, **changes),
    }
    return planned(data=data)


def machine(hardware: Hardware = CPU, *, other_cores: float = 0.0, **changes: Any) -> Case:
    """A machine alone; `changes` are fields of its planned run or of what is left of it."""
    of_run = {name: changes.pop(name) for name in list(changes) if hasattr(PLANNED, name)}
    return Case(
        hardware=hardware,
        script="",
        wall={},
        steps=Steps(count=0),
        process=ProcessFacts(other_cores=other_cores),
        planned=PlannedRun(
            **{"folder": "/home/me/runs", "free_bytes": 100 << 30, **of_run},
            machine=replace(MACHINE, **changes),
        ),
    )
