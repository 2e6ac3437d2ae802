"""Compares the gain that an experiment of the doctor measured with that of the mended script.

    python -m benchmarks.predicted FOLDER ...

Each folder has train.py and the mended version, fixed.py or mended.py. Both run twice in turn,
whole, under a clock that notes the end of each optimizer step; the gain is the ratio of the mean
steps from the tenth on. `hotloop doctor` then runs once on train.py; its leading experiment is the
one with the largest measured gain; where samples can be kept, "ready samples" stands for "ready
batches". Writes benchmarks/results/predicted.json after each folder.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.diagnosed import doctored
from benchmarks.table import RESULTS

RESULT = RESULTS / "predicted.json"
CLOCK = """
import json, runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
ends = []
register_optimizer_step_post_hook(lambda *_: ends.append(time.perf_counter()))
out, sys.argv = sys.argv[1], sys.argv[2:]
sys.path[0] = "."
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    open(out, "w").write(json.dumps(ends))
"""
WARM = 10  # steps
NEAR = 0.15


def seconds_a_step(script: Path) -> float:
    """Run a script whole; return the mean seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ends.json"
        command = [sys.executable, "-c", CLOCK, str(out), script.name]
        subprocess.run(command, cwd=script.parent, capture_output=True, check=True, timeout=400)
        ends = json.loads(out.read_text())[WARM:]
        return float((ends[-1] - ends[0]) / (len(ends) - 1))


def compared(folder: Path) -> dict[str, Any]:
    """Return one row of the table."""
    train = folder / "train.py"
    mended = next(path for name in ("fixed.py", "mended.py") if (path := folder / name).exists())
    rounds = [(seconds_a_step(train), seconds_a_step(mended)) for _ in range(2)]
    before, after = (statistics.median(side) for side in zip(*rounds, strict=True))
    made = doctored(train, cwd=folder)[0].experiments
    gains = sorted((one for one in made if one.gain), key=lambda one: -(one.gain or 0.0))
    leading = gains[0] if gains else None
    samples = [one for one in gains if one.name == "ready samples"]
    if leading is not None and leading.name == "ready batches" and samples:
        leading = samples[0]
    real = before / after
    row: dict[str, Any] = {"script": folder.name, "real": round(real, 3), "near": False}
    if leading is not None and leading.gain is not None:
        row["predicted"] = round(leading.gain, 3)
        row["interval"] = [leading.low, leading.high]
        row["what"] = [leading.row or leading.name, [place.line for place in leading.places]]
        row["near"] = abs(leading.gain / real - 1) <= NEAR
    return row | {"all": [[one.row or one.name, one.gain or one.why_not] for one in made]}


def main() -> None:
    """Compare all folders, and write each result when it is known."""
    results = []
    for folder in map(Path, sys.argv[1:]):
        results.append(compared(folder.resolve()))
        print(json.dumps(results[-1]), flush=True)
        RESULT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
