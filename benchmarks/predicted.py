"""Compares the gain that an experiment of the doctor measured with that of the mended script.

    python -m benchmarks.predicted FOLDER ...

Each folder has train.py and the mended version, fixed.py or mended.py. Both run twice in turn for
up to 20 s of steps, under a clock that notes the end of each step of an optimizer and stands still
while other programs have the core. The optimizer with the most steps counts. The gain is the ratio
of the mean steps of the second half, as a mended script may fill a cache first. Rare steps of more
than five times the median (an evaluation at the end of an epoch) are cut there, as in the blocks of
an experiment, unless the experiment is on what is rare: evaluating, saving, logging, waiting.
`hotloop doctor` then runs once on train.py. The prediction is the experiment of its first finding
on speed, else the one with the largest gain; where samples can be kept, "ready samples" stands for
"ready batches", as the mended script still collates. Evaluating, saving and the like are not left
out by a mended script but done less often: the ledger's allowance for them is taken off the gain.
Writes benchmarks/results/predicted.json after each folder; rows of other folders stay.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import doctored
from benchmarks.table import RESULTS
from hotloop.core.case.ledger import NEEDED
from hotloop.report import sentences
from hotloop.rules import ALL
from hotloop.rules.diagnose import diagnose
from hotloop.rules.tried import experiment_on

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.experiment import Experiment

RESULT = RESULTS / "predicted.json"
CLOCK = """
import json, os, runpy, sys
from hotloop.machine.own_clock import own_time
from torch.optim.optimizer import register_optimizer_step_post_hook
known, ends = [], {}  # optimizers, which keep their ids; the ends of the steps of each
def leave():
    with open(out, "w") as file:
        file.write(json.dumps(max(ends.values(), key=len)))
    os._exit(0)
def ended(optimizer, *_):
    if id(optimizer) not in ends:
        known.append(optimizer)
    own = ends.setdefault(id(optimizer), [])
    own.append(own_time())
    if own[-1] - own[0] > 20 and len(own) > 60:
        leave()
register_optimizer_step_post_hook(ended)
out, sys.argv = sys.argv[1], sys.argv[2:]
sys.path[0] = "."
runpy.run_path(sys.argv[0], run_name="__main__")
leave()
"""
LONG = 5  # times the median
RARE = ("evaluating", "saving", "logging", "waiting for data")
NEAR = 0.15


def step_times(script: Path) -> list[float]:
    """Run a script; return the seconds of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ends.json"
        command = [sys.executable, "-c", CLOCK, str(out), script.name]
        subprocess.run(command, cwd=script.parent, capture_output=True, check=True, timeout=400)
        ends = json.loads(out.read_text())
        ends = ends[len(ends) // 2 :]
        return [after - before for before, after in pairwise(ends)]


def mean(seconds: list[float], *, whole: bool) -> float:
    """Return the mean step, with rare long steps cut unless it is to be whole."""
    longest = float("inf") if whole else LONG * statistics.median(seconds)
    return statistics.fmean(min(step, longest) for step in seconds)


def compared(folder: Path) -> dict[str, Any]:
    """Return one row of the table."""
    train = folder / "train.py"
    mended = next(path for name in ("fixed.py", "mended.py") if (path := folder / name).exists())
    rounds = [(step_times(train), step_times(mended)) for _ in range(2)]
    case = doctored(train, cwd=folder)[0]
    made, leading = case.experiments, _leading(case)
    whole = leading is not None and leading.row in RARE
    before, after = (
        statistics.fmean(mean(steps, whole=whole) for steps in side)
        for side in zip(*rounds, strict=True)
    )
    real = before / after
    row: dict[str, Any] = {"script": folder.name, "real": round(real, 3), "near": False}
    if leading is not None and leading.gain is not None:
        gain = leading.gain / (1 + NEEDED.get(leading.row or "", 0.0))
        row["predicted"], row["without"] = round(gain, 3), round(leading.gain, 3)
        row["interval"] = [leading.low, leading.high]
        row["what"] = [leading.row or leading.name, [place.line for place in leading.places]]
        row["near"] = abs(gain / real - 1) <= NEAR
    return row | {"all": [[one.row or one.name, one.gain or one.why_not] for one in made]}


def _leading(case: Case) -> Experiment | None:
    """Return the experiment of the first finding on speed, else the one with the largest gain."""
    rules = {rule.id: rule for rule in ALL}
    loud = filter(sentences.is_loud, diagnose(case).findings)
    first = next((finding for finding in loud if finding.kind == "speed"), None)
    of_finding = experiment_on(case, first, rules) if first is not None else None
    gains = sorted((one for one in case.experiments if one.gain), key=lambda one: -(one.gain or 0))
    leading = of_finding or next(iter(gains), None)
    samples = [one for one in gains if one.name == "ready samples"]
    return samples[0] if samples and leading and leading.name == "ready batches" else leading


def main() -> None:
    """Compare all folders, and write each result when it is known."""
    rows = json.loads(RESULT.read_text()) if RESULT.exists() else []
    results = {row["script"]: row for row in rows}
    for folder in map(Path, sys.argv[1:]):
        row = results[folder.name] = compared(folder.resolve())
        print(json.dumps(row), flush=True)
        RESULT.write_text(json.dumps(list(results.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
