"""One rank beside two, each on a core of its own, by every way of sharing that is installed.

python -m benchmarks.several [--rounds N]

Each run is `hotloop train char-lm` as a user starts it, with the same optimizer steps; readings are
the medians of the steps that its log holds, after the warm-up. Goes to results/several-cpu.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measure import Load, versions
from benchmarks.table import RESULTS
from hotloop.core.events import steady, steps
from hotloop.core.storage.files import write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.machine.detect import detect

WAYS = {
    "one rank": (),
    "ddp": ("--with", "ddp"),
    "fsdp2": ("--with", "fsdp2"),
    "deepspeed": ("--with", "deepspeed:stage=1"),
}
SETTINGS = (
    *("model.layers=4", "model.width=256", "model.heads=4", "model.context=128"),
    *("model.dropout=0", "training.batch_size=16", "training.accumulation=2"),
    *("training.max_steps=20", "training.eval_every_steps=20", "training.eval_batches=1"),
    *("training.log_every=1", "training.precision=fp32", "training.save_every_steps=null"),
)
TEXT = "It is a truth that a text of some length has many words, and each comes back. "


def run(way: str, text: Path, out: Path) -> dict[str, float]:
    """Train once; return the median seconds of a step and of its phases."""
    ranks = 1 if way == "one rank" else 2
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*start, f"--nproc-per-node={ranks}", "-m", "hotloop", "train", "char-lm"]
    command += [f"data.path={text}", *SETTINGS, *WAYS[way], "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    made = steady(steps(RunDir(out).events()))
    found = {"step": median(step.wall for step in made)}
    names = {name for step in made for name in step.phases}
    found |= {name: median(step.phases.get(name, 0.0) for step in made) for name in names}
    return found


def main() -> None:
    """Run every way in turns; write and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ways = [w for w in WAYS if w != "deepspeed" or importlib.util.find_spec("deepspeed")]
    readings: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    load = Load()
    with tempfile.TemporaryDirectory() as folder:
        (text := Path(folder) / "text.txt").write_text(TEXT * 4000)
        for number in range(rounds):
            for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                readings[way].append(run(way, text, Path(folder) / f"{way}-{number}"))
                print(f"round {number + 1}: {way} {readings[way][-1]['step']:.4f} s", flush=True)
    alone = [each["step"] for each in readings["one rank"]]
    table = {}
    for way, each in readings.items():
        ratios = [one["step"] / first for one, first in zip(each, alone, strict=True)]
        table[way] = {
            "step_ms": round(1e3 * median(one["step"] for one in each), 1),
            "exchange_ms": round(1e3 * median(one.get("exchange", 0.0) for one in each), 1),
            "of_one_rank": [round(q, 3) for q in quantiles(ratios, n=4)] if rounds > 1 else ratios,
            "n": rounds,
        }
        print(way, table[way])
    result = {
        "hardware": detect("cpu").to_json(),
        "versions": versions(),
        "settings": SETTINGS,
        "others_used_cores": round(load.others(), 2),
        "readings": readings,
        "table": table,
    }
    write_json(RESULTS / "several-cpu.json", result)


if __name__ == "__main__":
    main()
