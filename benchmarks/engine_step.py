"""L1: what the loop adds to one optimizer step of a small model, with clip, schedule and logging.

python -m benchmarks.engine_step [--rounds N] [--only TEXT] [--busy] [--quick]

A model of 134 thousand parameters on one thread, where every microsecond of the loop shows. All
loops run in one process, a block of steps each by turns; CPU time is judged. The same weights must
come out of all that clip. What hotloop's plan does to the whole process (gc-freeze) helps all.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from benchmarks import loops
from benchmarks.measure import Bench, Goal, interleave, options
from benchmarks.turns import Racer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.jobs.job import PreparedRun

BLOCK = 200  # steps
CPU, WALL = "cpu us/step", "wall us/step"
HOT, HOT_EACH = "hotloop", "hotloop, log each step"
BARE, PLAIN = "bare", "plain + clip + scheduler"
SETTINGS = (
    "model.layers=1",
    "model.heads=2",
    "model.width=64",
    "model.context=8",
    "training.batch_size=2",
    "training.accumulation=1",
    "training.max_steps=1000000",
    "training.eval_every_steps=1000000",
    "training.eval_batches=1",
    "training.save_every=100000",
    "training.precision=fp32",
    "training.use_compile=false",
)
HF, HF_EACH, LIGHTNING = "HF Trainer", "HF Trainer, log each step", "Lightning"
FABRIC, ACCELERATE = "Fabric + clip", "Accelerate + clip"
PEERS = (FABRIC, HF, HF_EACH, ACCELERATE, LIGHTNING)
GOALS = [
    Goal(text=text, row=HOT, quantity=CPU, against=against, limit=limit)
    for text, against, limit in (
        ("hotloop at most 1.05x the bare loop", BARE, 1.05),
        ("hotloop at most 0.5x HF Trainer", HF, 0.5),
        ("hotloop at most 0.4x Lightning", LIGHTNING, 0.4),
    )
] + [
    Goal(
        text="hotloop logging each step at most 0.5x HF Trainer logging each step",
        row=HOT_EACH,
        quantity=CPU,
        against=HF_EACH,
        limit=0.5,
    )
]
ALIKE = 1e-4  # largest difference of a weight after BLOCK steps, over the largest weight


def small_model(vocabulary: int) -> nn.Module:
    """Return an MLP over characters, about 134,000 parameters at 97 characters."""
    return nn.Sequential(
        nn.Embedding(vocabulary, 64),
        nn.Linear(64, 496),
        nn.GELU(),
        nn.Linear(496, 160),
        nn.GELU(),
        nn.Linear(160, vocabulary),
    )


@functools.cache
def assembled(characters: int, *more: str) -> PreparedRun:
    """Return the engine's assembly with the small model in it."""
    parts = loops.assembly((*SETTINGS, f"data.max_chars={characters}", *more))
    size = len(parts.data.vocabulary)
    return replace(parts, job=replace(parts.job, model=lambda: small_model(size)))


class Entry:
    """A loop in the race, its readings in microseconds."""

    def __init__(
        self, loop: Callable[[loops.Course], None], parts: PreparedRun, block: int
    ) -> None:
        def run(pull: Callable[[], None]) -> None:
            self.course = loops.Course(parts, pull, ready=block)
            loop(self.course)

        self._racer = Racer(run, block=block)
        self.stop = self._racer.stop

    def lap(self) -> dict[str, float]:
        """Return the reading of a block."""
        reading = self._racer.lap()
        return {CPU: reading["cpu"] * 1e6, WALL: reading["wall"] * 1e6}

    def weights(self) -> torch.Tensor:
        """Return a copy of all weights, [parameters]."""
        assert self.course.model is not None
        return nn.utils.parameters_to_vector(self.course.model.parameters()).detach().clone()


def contestants(characters: int, block: int) -> dict[str, Callable[[], Entry]]:
    """Return what makes each row."""

    def of(loop: Callable[[loops.Course], None], *more: str) -> Callable[[], Entry]:
        return lambda: Entry(loop, assembled(characters, *more), block)

    return {
        BARE: of(loops.bare),
        HOT: of(loops.hotloop),
        HOT_EACH: of(loops.hotloop, "training.log_every=1"),
        PLAIN: of(loops.plain),
        FABRIC: of(loops.fabric),
        HF: of(loops.trainer),
        HF_EACH: of(functools.partial(loops.trainer, logging_steps=1)),
        ACCELERATE: of(loops.accelerate),
        LIGHTNING: of(loops.lightning),
    }


def differences(entries: Mapping[str, Entry]) -> dict[str, float]:
    """Return how far each loop that clips is from the plain one, over the largest weight."""
    weights = {name: entry.weights() for name, entry in entries.items() if name != BARE}
    base = weights.pop(PLAIN, None)
    if base is None:
        return {}
    return {name: ((w - base).abs().max() / base.abs().max()).item() for name, w in weights.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Race the loops."""
    chosen = options(argv, __doc__ or "")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the peers
    block, characters = (5, 100_000) if chosen.quick else (BLOCK, 2_000_000)
    model = assembled(characters).job.model()
    size = sum(parameter.numel() for parameter in model.parameters())
    bench = Bench(
        name="engine_step",
        title=f"L1 one optimizer step of {size:,} parameters with clip, schedule and logging",
        options=chosen,
        base=BARE,
        quantities=(CPU, WALL),
        peers=PEERS,
        goals=GOALS,
    )
    bench.begin()
    entries = bench.gather(contestants(characters, block))
    for entry in entries.values():
        entry.lap()  # all rest after the same number of steps
    for name, far in differences(entries).items():
        alike = "agree" if far < ALIKE else "DIFFER"
        bench.notes.append(f"weights after {block} steps, {name} and plain: {alike}, {far:.1e}")
    laps = {name: entry.lap for name, entry in entries.items()}
    bench.conclude(interleave(laps, rounds=chosen.rounds, warm=1))
    for entry in entries.values():
        entry.stop()


if __name__ == "__main__":
    main()
