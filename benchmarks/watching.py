"""W1: what it costs to be watched: a plain loop of small steps, alone, under hotloop, under peers.

python -m benchmarks.watching [--rounds N] [--only TEXT] [--busy] [--quick]

Every reading is a fresh process of watched.py, which times its own steps and knows of nobody. CPU
time is the main thread's. A second plain row shows what a difference of nothing looks like. Where a
peer's manual asks for lines in the script, EDITS has them.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Bench, Goal, interleave, interval, options
from benchmarks.table import shown
from benchmarks.turns import NotRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.measure import Readings

SCRIPT = Path(__file__).parent / "watched.py"
PYTHON, BIN = sys.executable, Path(sys.executable).parent
CPU, WALL, TENTH = "cpu us/step", "wall us/step", "tenth wall us/step"
QUANTITIES = (CPU, WALL, TENTH, "all threads cpu us/step", "process s")
PLAIN, AGAIN = "plain", "plain, again"
RUN, DOCTOR = "hotloop run", "hotloop doctor"
TRACEML, EDITED, GPUPROF = "TraceML", "TraceML, script edited", "gpuprof, script edited"
# {script} {out} {steps}; a peer is started as its manual says.
COMMANDS = {
    PLAIN: "{python} {script} {out} {steps}",
    AGAIN: "{python} {script} {out} {steps}",
    RUN: "{python} -m hotloop run -q {script} {out} {steps}",
    DOCTOR: "{python} -m hotloop doctor --full {script} {out} {steps}",
    TRACEML: "{bin}/traceml run {script} --args {out} {steps}",
    EDITED: "{bin}/traceml run {script} --args {out} {steps}",
    GPUPROF: "{python} {script} {out} {steps}",
}
PACKAGES = {TRACEML: "traceml_ai", EDITED: "traceml_ai", GPUPROF: "gpuprof"}
EDITS = {
    EDITED: (
        ("import torch\n", "import torch\nimport traceml_ai as traceml\n"),
        (
            "            train(inputs, labels)\n",
            "            with traceml.trace_step(model):\n                train(inputs, labels)\n",
        ),
    ),
    GPUPROF: (
        ("import torch\n", "import gpuprof\nimport torch\n"),
        ("    main()\n", '    with gpuprof.profile("watched"):\n        main()\n'),
    ),
}
STEPS, ROUNDS, MOST = 3_000, 30, 300  # steps, pairs, seconds of a process
GOALS = [
    Goal(
        text=f"{row} {text}, {quantity.partition(' ')[0]} time",
        row=row,
        quantity=quantity,
        against=PLAIN,
        relation=relation,
        limit=limit,
        judged="interval",
    )
    for row in (RUN, DOCTOR)
    for quantity in (CPU, WALL)
    for text, relation, limit in (
        ("adds at most 10 us a step", "difference", 10.0),
        ("at most 1.02x the plain loop", "ratio", 1.02),
    )
]


def edited(name: str) -> str:
    """Return the script as a row runs it."""
    text = SCRIPT.read_text()
    for old, new in EDITS.get(name, ()):
        if text.count(old) != 1:
            raise NotRun(f"watched.py has {text.count(old)} times {old.strip()!r}, expected 1")
        text = text.replace(old, new)
    return text


def row(name: str, steps: int) -> Callable[[], dict[str, float]]:
    """Return what takes a reading of a row; NotRun where its package is missing."""
    package = PACKAGES.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        raise NotRun(f"{package} is not installed here")
    return functools.partial(reading, COMMANDS[name], edited(name), steps)


def reading(command: str, text: str, steps: int) -> dict[str, float]:
    """Run a script in a new process and an empty folder; return what it says, and the whole time.

    Raises CalledProcessError when it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / SCRIPT.name).write_text(text)
        words = command.format(
            python=PYTHON, bin=BIN, script=SCRIPT.name, out="out.json", steps=steps
        )
        began = time.perf_counter()
        subprocess.run(
            shlex.split(words),
            check=True,
            capture_output=True,
            cwd=folder,
            timeout=MOST,
            env={"OMP_NUM_THREADS": "1", **os.environ},
        )
        seconds = time.perf_counter() - began
        return {**json.loads((Path(folder) / "out.json").read_text()), "process s": seconds}


def costs(readings: Readings) -> list[str]:
    """Return what each row adds to a step, with the 95 % interval of the median over the pairs."""
    said = []
    for name in readings:
        if name == PLAIN or PLAIN not in readings:
            continue
        parts = []
        for quantity in (CPU, WALL, TENTH):
            pairs = list(zip(readings[name][quantity], readings[PLAIN][quantity], strict=True))
            low, middle, high = interval([a - b for a, b in pairs])
            shares = map(shown, interval([(a / b - 1) * 100 for a, b in pairs]))
            parts.append(
                f"{quantity.removesuffix(' us/step')} {middle:+.1f} us [{low:+.1f}..{high:+.1f}], "
                "{1} % [{0}..{2}]".format(*shares)
            )
        said.append(f"{name} adds to a step: {'; '.join(parts)} (median, 95 % interval)")
    return said


def spread(readings: Readings) -> list[str]:
    """Say how far two rows of the same command are apart."""
    if not {PLAIN, AGAIN} <= readings.keys():
        return []
    said = []
    for quantity in (CPU, WALL, TENTH):
        pairs = zip(readings[AGAIN][quantity], readings[PLAIN][quantity], strict=True)
        low, _, high = interval([(a / b - 1) * 100 for a, b in pairs])
        wide = max(-low, high) > 2
        verdict = "more than 2 %: it cannot tell 2 %" if wide else "within 2 %"
        said.append(f"A/A, {quantity}: {low:+.2f}..{high:+.2f} %, {verdict}")
    return said


def commands(rows: Mapping[str, object]) -> list[str]:
    """Return how each row was started, in words that hold on any machine."""
    said = []
    for name in rows:
        words = COMMANDS[name].format(
            python="python", bin="bin", script=SCRIPT.name, out="out.json", steps=STEPS
        )
        more = [new.strip() for _, new in EDITS.get(name, ())]
        changed = f"; its script has {more}" if more else ""
        said.append(f"{name}: `{words.replace('bin/', '')}`{changed}")
    return said


def main(argv: Sequence[str] | None = None) -> None:
    """Start processes by turns."""
    chosen = options(argv, __doc__ or "", rounds=ROUNDS)
    steps = 40 if chosen.quick else STEPS
    bench = Bench(
        name="watching",
        title="W1 a plain loop of 7 modules, watched",
        options=chosen,
        base=PLAIN,
        quantities=QUANTITIES,
        peers=(AGAIN, DOCTOR, *PACKAGES),
        goals=GOALS,
    )
    bench.begin()
    rows = bench.gather({name: functools.partial(row, name, steps) for name in COMMANDS})
    readings = interleave(rows, rounds=chosen.rounds, warm=0 if chosen.quick else 1)
    bench.notes += [*spread(readings), *costs(readings), *commands(rows)]
    bench.conclude(readings)


if __name__ == "__main__":
    main()
