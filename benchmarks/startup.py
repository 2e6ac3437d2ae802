"""S1: how long `--help` takes, here and elsewhere, and the first training step, as whole processes.

python -m benchmarks.startup [--rounds N] [--only TEXT] [--busy] [--quick]

The first step is timed from the start of the process by the run's own log, with the tokens in the
cache, and held against `import torch`. The commands of others take seconds and are run less often.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Bench, Goal, interleave, options
from benchmarks.turns import NotRun
from hotloop.core.storage.rundir import RunDir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WALL, CPU = "wall s", "cpu s"
START, HELP, TORCH, FIRST = "python start", "hotloop --help", "import torch", "hotloop, first step"
BIN = Path(sys.executable).parent
OWN = {
    START: [sys.executable, "-c", ""],
    HELP: [str(BIN / "hotloop"), "--help"],
    "hotloop, misspelt key": [str(BIN / "hotloop"), "train", "char-lm", "traning.batch_size=1"],
    TORCH: [sys.executable, "-c", "import torch"],
}
TRAIN = (sys.executable, "-m", "hotloop", "train", "-q", "char-lm", "preset=cpu")
ONE_STEP = ("training.max_steps=1", "training.eval_batches=1", "--out")
OTHERS = ("trl", "hf", "datasets-cli", "torchrun", "transformers", "accelerate", "fabric")
SELDOM = 7  # readings of the commands of others
HEAVY = {"torch", "numpy", "transformers", "safetensors", "rich", "psutil", "matplotlib"}
LOADED = (
    "import sys; from hotloop.cli.main import main; main(['--help']); "
    f"print(*sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
)
GOALS = [
    Goal(text="hotloop --help at most 0.15 s (must)", row=HELP, quantity=WALL, limit=0.15),
    Goal(text="hotloop --help at most 0.08 s", row=HELP, quantity=WALL, limit=0.08),
    Goal(
        text="hotloop's first training step at most 0.7 s after import torch",
        row=FIRST,
        quantity=WALL,
        against=TORCH,
        relation="difference",
        limit=0.7,
    ),
]


def process(command: Sequence[str]) -> dict[str, float]:
    """Return the wall time of one process, and its CPU time."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=False, capture_output=True)
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system
    return {WALL: wall, CPU: used - before.children_user - before.children_system}


def first_step() -> dict[str, float]:
    """Return when step 1 was complete, in seconds since its process began."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        subprocess.run([*TRAIN, *ONE_STEP, str(out)], check=True, capture_output=True)
        return {WALL: next(e["t"] for e in RunDir(out).events() if e["kind"] == "step")}


def help_of(name: str) -> Callable[[], dict[str, float]]:
    """Return what times the help of somebody's command."""
    if not (BIN / name).exists():
        raise NotRun(f"there is no {BIN.name}/{name} in this environment")
    return functools.partial(process, [str(BIN / name), "--help"])


def heavy() -> str:
    """Say what `hotloop --help` imports that takes long."""
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True)
    found = done.stderr.decode().split()
    return f"hotloop --help imports {', '.join(found) or 'none'} of {', '.join(sorted(HEAVY))}"


def main(argv: Sequence[str] | None = None) -> None:
    """Start processes by turns."""
    chosen = options(argv, __doc__ or "")
    bench = Bench(
        name="startup",
        title="S1 the start of commands, and of training",
        options=chosen,
        base=START,
        quantities=(WALL, CPU),
        goals=GOALS,
        notes=[heavy()],
    )
    bench.begin()
    makers = {name: functools.partial(process, command) for name, command in OWN.items()}
    own = bench.gather({name: lambda made=made: made for name, made in makers.items()})
    if chosen.quick:
        own.pop(TORCH, None)
    elif bench.wanted(FIRST):
        own[FIRST] = first_step
    others = {} if chosen.quick else {f"{n} --help": functools.partial(help_of, n) for n in OTHERS}
    readings = interleave(own, rounds=chosen.rounds, warm=1)
    readings |= interleave(bench.gather(others), rounds=min(SELDOM, chosen.rounds), warm=1)
    bench.conclude(readings)


if __name__ == "__main__":
    main()
