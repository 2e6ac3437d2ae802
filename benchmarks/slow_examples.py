"""What the one true cause of each slow example costs: train.py against fixed.py, by turns.

python -m benchmarks.slow_examples [NAME ...] [--rounds N] [--timeout SECONDS] [--out FOLDER]

Each run is a fresh process from its start to its end (import of torch included) in an empty folder,
with OMP_NUM_THREADS=1 unless the environment says otherwise. The ratio is train.py over fixed.py,
one a round; where the cause spoils the result, the printed losses are what counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import BUSY, Load
from benchmarks.table import RESULTS, quartiles, shown
from hotloop.core.measurement import Measurement
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = Path(__file__).parents[1] / "examples" / "slow"
SCRIPTS = ("train", "fixed")
WALL, CPU = "wall s", "cpu s"
# The last number that a script prints like this is what its training came to.
PRINTED = {
    "adapters_never_called": ("val loss", r"val loss ([\d.]+)"),
    "scheduler_accumulation": ("val loss", r"final val loss ([\d.]+)"),
    "stride1_windows": ("val loss", r"val loss ([\d.]+)"),
    "validation_outside_loop": ("test loss", r"test loss ([\d.]+)"),
}


def names() -> list[str]:
    """Return the examples that have a fixed.py, in order."""
    return sorted(path.parent.name for path in EXAMPLES.glob("*/fixed.py"))


def reading(example: str, script: str, *, timeout_s: float) -> dict[str, float]:
    """Run one script in a process of its own; raise CalledProcessError if it fails."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLES / example / f"{script}.py"), "--out", "out"]
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            cwd=folder,
            env=environment,
        )
        wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system
    found = {WALL: wall, CPU: used - before.children_user - before.children_system}
    if example in PRINTED:
        quantity, pattern = PRINTED[example]
        found[quantity] = float(re.findall(pattern, done.stdout)[-1])
    return found


def measure(example: str, *, rounds: int, timeout_s: float) -> dict[str, Any]:
    """Run both scripts in each round, the order turning, and return what they took."""
    taken: dict[str, dict[str, list[float]]] = {script: {} for script in SCRIPTS}
    before, load = Load.watched(), Load()
    for number in range(rounds):
        for script in SCRIPTS if number % 2 == 0 else reversed(SCRIPTS):
            for quantity, value in reading(example, script, timeout_s=timeout_s).items():
                taken[script].setdefault(quantity, []).append(value)
    ratios = {}
    for quantity in taken["train"]:
        pairs = zip(taken["train"][quantity], taken["fixed"][quantity], strict=True)
        values = [slow / fast for slow, fast in pairs]
        low, middle, high = quartiles(values)
        ratios[quantity] = {"median": middle, "quartiles": [low, high], "n": len(values)}
    during, seconds = load.others(), load.seconds
    cause = json.loads((EXAMPLES / example / "cause.json").read_text())
    return {
        "kind": cause["kind"],
        "ratio, train over fixed": ratios,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "took_s": round(seconds, 1),
        "busy": max(before, during) > BUSY,
        "others_cores": {"before": round(before, 3), "during": round(during, 3)},
        **{
            script: {
                quantity: Measurement(unit=quantity, readings=tuple(values)).to_json()
                for quantity, values in row.items()
            }
            for script, row in taken.items()
        },
    }


def line(example: str, row: dict[str, Any]) -> str:
    """Return one example's ratios as a line of text."""
    cells = [
        f"{quantity.removesuffix(' s')} x{shown(ratio['median'])}"
        f" ({shown(ratio['quartiles'][0])}..{shown(ratio['quartiles'][1])})"
        for quantity, ratio in row["ratio, train over fixed"].items()
    ]
    return f"{example:24} {row['kind']:12} {'  '.join(cells)}"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the examples that are named, or all; rows of others in the file stay as they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--timeout", type=float, default=300, help="of a run, default %(default)s")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    chosen = parser.parse_args(argv)
    unknown = set(chosen.names) - set(names())
    if unknown:
        parser.error(f"no such example: {', '.join(sorted(unknown))}; there are {names()}")
    target = chosen.out / "slow-examples-cpu.json"
    rows = json.loads(target.read_text())["rows"] if target.is_file() else {}
    for example in chosen.names or names():
        rows[example] = measure(example, rounds=chosen.rounds, timeout_s=chosen.timeout)
        print(line(example, rows[example]), flush=True)
    result = {
        "schema": 1,
        "benchmark": "slow_examples",
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),
        "hardware": detect("cpu").to_json(),
        "rows": {name: rows[name] for name in names() if name in rows},
    }
    make_folder(chosen.out)
    write_json(target, result)


if __name__ == "__main__":
    main()
