"""Whether the plan that `hotloop tune` finds is as fast as the best of many plans drawn by chance.

    python -m benchmarks.random_plans [--budget 3m] [--plans 15] [--seed N] [KEY=VALUE ...]

Tunes char-lm preset=cpu on Tiny Shakespeare as a user would. Then draws plans: each takes every
move of the search with a chance of one half, in an order drawn by chance; all differ. They race
against tune's plan, four at a time, three pairs of processes of ten rounds each. The goal: a whole
run under tune's plan takes at most 10 % longer than under the best of them; a plan may have faster
steps whose compiling is not earned back. Result: benchmarks/results/random-plans-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diffusion import DATA
from benchmarks.table import RESULTS
from hotloop.core.plan import Plan
from hotloop.core.storage.files import write_json
from hotloop.core.trial import Trial, compare
from hotloop.core.tuning_result import Tuned
from hotloop.jobs.request import fresh_request
from hotloop.machine.threads import load, others
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.races import keeping_memory
from hotloop.tuning.recipe_target import RecipeTarget, moves
from hotloop.tuning.recipe_trial import assembled, record_of

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHIN = 1.10  # times the best plan's step
BESIDE = 4  # plans that race beside tune's
LENGTH = RaceLength(rounds=10, pairs=3, hopeless=math.inf)


def tuned(settings: Sequence[str], budget: str, folder: Path) -> Tuned:
    """Run tune as a user would; return its result."""
    command = [sys.executable, "-m", "hotloop", "tune", "-q", "--budget", budget]
    out = folder / "tuned"
    subprocess.run(
        [*command, "--out", str(out), "char-lm", *settings], check=True, stdout=sys.stderr
    )
    return Tuned.from_json(json.loads((out / "trials.json").read_text()))


def drawn(target: RecipeTarget, count: int, seed: int) -> list[Plan]:
    """Return plans by chance, each another one, that fit into memory."""
    draw, plans = random.Random(seed), list[Plan]()
    while len(plans) < count:
        plan = target.baseline
        proposed = [move for move in moves(target) if move.why_not is None]
        draw.shuffle(proposed)
        for move in proposed:
            changed = move.change(plan) if draw.random() < 0.5 and not move.barred(plan) else None
            plan = plan if changed is None else changed
        if plan not in plans and target.too_much(plan) is None:
            plans.append(plan)
    return plans


def compared(target: RecipeTarget, best: Plan, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Race plans against the plan of tune; return a row for each."""
    entries = [target.entry(plan, epochs=0, needs=()) for plan in (best, *plans)]
    base, *tried = race(keeping_memory(entries), LENGTH)
    rows = []
    for plan, trial in zip(plans, tried, strict=True):
        found = compare(trial, base)
        runs = [_run(each, target.total) for each in (trial, base)]
        rows.append(
            {
                "plan": plan.to_json(),
                "outcome": trial.outcome,
                "why": found.why,
                "ratio": found.ratio,
                "run_ratio": runs[0] / runs[1] if runs[0] and runs[1] else None,
                "interval": found.interval,
                "n": found.n,
            }
        )
    return rows


def _run(trial: Trial, steps: int | None) -> float | None:
    """Return the seconds of a whole run, with what is paid once; None if unknown."""
    if trial.once is None or trial.step_time is None or steps is None:
        return None
    return trial.once + steps * trial.step_time.median


def main(argv: Sequence[str] | None = None) -> int:
    """Tune, draw, race; 1 when a plan by chance is more than 10 % faster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--plans", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    settings = ["preset=cpu", f"data.path={DATA}", *options.settings]
    before, began = load(children=True), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = tuned(settings, options.budget, Path(folder))
    request = record_of(fresh_request("char-lm", settings))
    prepared = assembled({"request": request, "plan": found.baseline.to_json()})
    rows = list[dict[str, Any]]()
    result: dict[str, Any] = {
        "schema": 1,
        "hardware": prepared.hardware.to_json(),
        "settings": options.settings,
        "budget": options.budget,
        "seed": options.seed,
        "tuned": found.plan.to_json(),
        "said": found.said,
        "plans": rows,
    }
    with RecipeTarget(request=request, prepared=prepared).forking() as target:
        plans = drawn(target, options.plans, options.seed)
        for first in range(0, len(plans), BESIDE):
            rows += compared(target, found.plan, plans[first : first + BESIDE])
            result["others"] = others(before, load(children=True))
            write_json(RESULTS / "random-plans-cpu.json", result)
            left = (time.monotonic() - began) / len(rows) * (len(plans) - len(rows))
            print(f"{len(rows)} of {len(plans)}, {left:.0f} s left", file=sys.stderr, flush=True)
    print(f"tune's plan: {found.plan}; {found.said}")
    for key, what in (("ratio", "step"), ("run_ratio", "whole run")):
        ratios = sorted(row[key] for row in rows if row[key] is not None)
        print(
            f"{what} of plans by chance / tune's, n {len(ratios)}: {[f'{r:.2f}' for r in ratios]}"
        )
    return int(ratios[0] < 1 / WITHIN)


if __name__ == "__main__":
    sys.exit(main())
