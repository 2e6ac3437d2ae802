"""Does a technique reach what the doctor said it can? Ceiling beside factor, on slow scripts.

    python -m benchmarks.put_in [--rounds N] [NAME ...]

For each script: `hotloop doctor --ceilings` says how much faster it can become at most; then
`hotloop run` without and with techniques by turns, fresh processes. A factor is of the seconds per
optimizer step, evaluation and saving included, start left out. Where every technique promises
BITWISE, the files the script saved must be equal. Result: benchmarks/results/put-in-cpu.json.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import RESULTS
from hotloop import techniques
from hotloop.core.case.case import ONCE, Case
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect
from hotloop.techniques.base import Numerics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A slow script and what is put into it."""

    script: str  # below examples
    put_in: tuple[str, ...]
    ceiling: str  # of --ceilings: which cost the techniques take away; "finding": the doctor's own

    @property
    def is_bitwise(self) -> bool:
        """Whether every technique promises the same bits."""
        return all(techniques.get(id).numerics is Numerics.BITWISE for id in self.put_in)


PADDED = "slow/hf/pad_to_max.py"
TRIALS = (
    Trial(script="slow/slow_getitem/train.py", put_in=("sample-cache",), ceiling="compute"),
    Trial(script="slow/lightning/slow_getitem.py", put_in=("sample-cache",), ceiling="compute"),
    Trial(script=PADDED, put_in=("dynamic-padding",), ceiling="finding"),
    # They take away what is in a batch, too: the finding's figure is of its longest row.
    Trial(script=PADDED, put_in=("length-bucketing",), ceiling="not said"),
    Trial(script=PADDED, put_in=("dynamic-padding", "length-bucketing"), ceiling="not said"),
    Trial(script=PADDED, put_in=("token-budget",), ceiling="not said"),
)


def hotloop(verb: str, options: Sequence[str], script: Path, folder: Path) -> Path:
    """Run one command in `folder`; return the run folder."""
    out = folder / "seen"
    command = [sys.executable, "-m", "hotloop", verb, *options, "--out", str(out), str(script)]
    done = subprocess.run(
        [*command, "--out", "out"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode or not (out / "case.json").exists():
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return out


@functools.cache
def predicted(script: str, ceiling: str) -> float | None:
    """Return how many times faster the doctor says that its steps can become, at most."""
    with tempfile.TemporaryDirectory() as folder:
        out = hotloop("doctor", ["--time", "20", "--ceilings"], EXAMPLES / script, Path(folder))
        case = Case.from_json(json.loads((out / "case.json").read_text()))
        found = json.loads((out / "findings.json").read_text())
    if ceiling == "finding":  # its own ceiling is of the wall time, start and imports included
        step = (case.seconds - sum(map(case.row, ONCE))) / case.steps.count
        return step / (step - float(found["findings"][0]["saves"]))
    return next((each.factor for each in case.ceilings if each.name == ceiling), None)


def once(trial: Trial, put_in: Sequence[str]) -> tuple[float, str]:
    """Run the script once; return the seconds of a step and a digest of what it saved."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-canary", "--with", ",".join(put_in)] if put_in else []
        out = hotloop("run", [*options, "-q"], EXAMPLES / trial.script, Path(folder))
        case = Case.from_json(json.loads((out / "case.json").read_text()))
        record = json.loads((out / "run.json").read_text())
        for effect in record["effects"]:
            if effect["word"] != "in effect":
                raise SystemExit(f"{trial.script}: {effect}")
        saved = hashlib.sha256()
        for path in sorted(Path(folder, "out").rglob("*")):
            if path.suffix in (".pt", ".pth", ".safetensors", ".ckpt"):
                saved.update(path.read_bytes())
    once_only = sum(map(case.row, ONCE))
    return (case.seconds - once_only) / case.steps.count, saved.hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Run all trials; 1 when one is faster than its ceiling or saved other bits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    rows: list[Mapping[str, Any]] = []
    for trial in TRIALS:
        if options.names and not any(name in trial.script for name in options.names):
            continue
        ceiling = predicted(trial.script, trial.ceiling)
        pairs = [(once(trial, ()), once(trial, trial.put_in)) for _ in range(options.rounds)]
        factors = [plain / with_it for (plain, _), (with_it, _) in pairs]
        same = len({digest for pair in pairs for _, digest in pair}) == 1
        row = {
            "script": trial.script,
            "with": list(trial.put_in),
            "ceiling": ceiling,
            "factors": factors,
            "plain_s": [plain for (plain, _), _ in pairs],
            "with_s": [with_it for _, (with_it, _) in pairs],
            "bitwise_promised": trial.is_bitwise,
            "same_files": same,
        }
        rows.append(row)
        said = "unknown" if ceiling is None else f"{ceiling:.2f}x"
        print(
            f"{trial.script}, {' and '.join(trial.put_in)}: at most {said}, reached "
            f"{statistics.median(factors):.2f}x "
            f"({min(factors):.2f}-{max(factors):.2f}, n {len(factors)}); "
            f"files {'equal' if same else 'differ'}",
            flush=True,
        )
    if not options.names:
        write_json(
            RESULTS / "put-in-cpu.json", {"schema": 1, "hardware": detect().to_json(), "rows": rows}
        )
    return int(any(row["bitwise_promised"] and not row["same_files"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
