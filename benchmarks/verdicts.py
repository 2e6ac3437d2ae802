"""How often a comparison of two trials is wrong: a plan with itself, and a planted slow-down.

    python -m benchmarks.verdicts [--same N] [--slower N] [--by SHARE] [--busy N] [--add]

Each comparison is made as `hotloop tune` makes its own: processes of one script under one plan,
blocks by turns, up to twelve pairs of them. The goal on a quiet machine: of 50 comparisons of a
plan with itself at most 1 is called FASTER or SLOWER, and some are called SAME; a planted 5 % is
called SLOWER in at least 18 of 20. A comparison is not counted while other programs use more than
0.3 cores; at most 10 are made again. `--busy` starts programs that use a core half of the time, and
counts all. `--add` keeps what was compared before on the same machine. Result, written after each
comparison: benchmarks/results/verdicts-cpu.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import RESULTS
from hotloop.core.plan import Plan
from hotloop.core.storage.files import read_json, write_json
from hotloop.core.trial import compare
from hotloop.machine.detect import detect
from hotloop.machine.threads import load, others
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.races import keeping_memory
from hotloop.tuning.script_target import Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCRIPT = str(Path(__file__).with_name("trialscript.py"))
PLAN = Plan(micro_batch=1)
BUSY = 0.3  # cores that other programs use, from which on a comparison is not counted
AGAIN = 10  # comparisons that are made again, at most


def compared(*arguments: str) -> dict[str, Any]:
    """Compare the script with arguments with the script without."""
    before = load(children=True)
    scripts = [
        Script(command=(SCRIPT, *more), cwd=Path.cwd(), detect=lambda: detect("cpu"))
        for more in ((), arguments)
    ]
    with contextlib.ExitStack() as stack:
        forking = [stack.enter_context(script.forking()) for script in scripts]
        entries = [script.entry(PLAN, epochs=0, needs=()) for script in forking]
        base, tried = race(keeping_memory(entries), RaceLength())
    found = compare(tried, base)
    return {
        "others": others(before, load(children=True)),
        "verdict": found.verdict,
        "ratio": found.ratio,
        "interval": found.interval,
        "n": found.n,
        "load": os.getloadavg()[0],
    }


@contextlib.contextmanager
def company(count: int) -> Iterator[None]:
    """Have other programs use the machine now and then, as on one that somebody works at."""
    code = (
        "import os, random, time\n"
        f"while os.getppid() == {os.getpid()}:\n"  # a benchmark that is killed ends them, too
        "    until = time.monotonic() + random.expovariate(2)\n"
        "    while time.monotonic() < until: pass\n"
        "    time.sleep(random.expovariate(2))\n"
    )
    programs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def summary(
    same: Sequence[dict[str, Any]], slower: Sequence[dict[str, Any]], by: float
) -> dict[str, Any]:
    """Return the result of both series."""
    return {
        "schema": 1,
        "hardware": detect("cpu").to_json(),
        "same": list(same),
        "slower": list(slower),
        "planted": by,
        "wrong": sum(row["verdict"] in ("FASTER", "SLOWER") for row in same),
        "found": sum(row["verdict"] == "SLOWER" for row in slower),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Make both series; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--same", type=int, default=50)
    parser.add_argument("--slower", type=int, default=20)
    parser.add_argument("--by", type=float, default=0.05, help="what is planted, of a step")
    parser.add_argument("--add", action="store_true", help="to what is in the result already")
    parser.add_argument(
        "--busy", type=int, default=0, help="programs that use a core half the time"
    )
    options = parser.parse_args(argv)
    path = RESULTS / "verdicts-cpu.json"
    known = read_json(path) if options.add else {}
    if known and known["hardware"] != json.loads(json.dumps(detect("cpu").to_json())):
        parser.error(f"{path.name} was made on another machine: start anew, without --add")
    same, slower = known.get("same", []), known.get("slower", [])
    planted = ("--slower", str(options.by))
    todo = [(slower, planted)] * options.slower + [(same, ())] * options.same
    began, again = time.monotonic(), 0
    with company(options.busy):
        for at, (rows, arguments) in enumerate(todo):
            while (row := compared(*arguments))["others"] > BUSY and not options.busy:
                again += 1
                print(f"not counted: others used {row['others']:.1f} cores", file=sys.stderr)
                if again > AGAIN:
                    parser.error("the machine is too busy")
            rows.append({**row, "busy_programs": options.busy})
            write_json(path, summary(same, slower, options.by))
            left = (time.monotonic() - began) / (at + 1) * (len(todo) - at - 1)
            name = f"{options.by:.0%} slower" if arguments else "the same"
            said = f"{name} {len(rows)}: {row['verdict']} {row['ratio'] or math.nan:.3f}"
            print(f"{said}, {left:.0f} s left", file=sys.stderr, flush=True)
    for name, rows in (("a plan with itself", same), (f"{options.by:.0%} slower", slower)):
        loads = [row["load"] for row in rows] or [0.0]
        verdicts = ", ".join(
            f"{word} {n}" for word, n in Counter(r["verdict"] for r in rows).items()
        )
        print(f"{name}, n {len(rows)}: {verdicts}; load {min(loads):.1f}-{max(loads):.1f}")
    found = summary(same, slower, options.by)
    return int(found["wrong"] > 0.02 * len(same) or found["found"] < 0.9 * len(slower))


if __name__ == "__main__":
    sys.exit(main())
