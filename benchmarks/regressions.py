"""What `hotloop doctor --baseline` can tell: runs of one script, and of one with work added.

    python -m benchmarks.regressions FOLDER [rounds]

Each round runs the doctor on each script as it is and with 30 % of each step added in a busy loop.
Then each run is compared with the runs as it is before it: with the last one, and with the last
three. A run begins when nothing else keeps a core busy. A second call goes on from the runs in
FOLDER.
"""

import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.paths import ROOT

from benchmarks.table import RESULTS
from hotloop.core.fail_on import parse_conditions
from hotloop.core.storage.files import write_json
from hotloop.diagnosis.baseline import read_baseline
from hotloop.diagnosis.changed_figures import FIGURES
from hotloop.diagnosis.regressions import compare_runs
from hotloop.machine.detect import detect
from hotloop.machine.threads import load, others

SCRIPTS = ("slow_getitem", "after_step_work", "double_attention")
ADDED = 0.3  # of each step
QUIET, PATIENCE = 0.2, 120.0  # cores, s
CONDITIONS = "step_time>+10% start>+25% peak_memory>+10% new-findings>=warn"
HOLD = f"""

import time as _time
_last = []
def _hold():
    now = _time.perf_counter()
    until = now + {ADDED} * (now - _last[-1]) if _last else now
    while _time.perf_counter() < until:
        pass
    _last[:] = [_time.perf_counter()]
"""
RESULT = RESULTS / "regressions-cpu.json"


def planted(script: Path, folder: Path) -> Path:
    """Return a copy of a script with work after each step, beside copies of what it reads."""
    slow = folder / "examples" / "slow"
    if not slow.exists():
        shutil.copytree(script.parents[1], slow)
    copy = slow / script.parent.name / "train.py"
    lines = script.read_text().splitlines()
    (step,) = (n for n, line in enumerate(lines) if "optimizer.step()" in line)
    indent = lines[step][: len(lines[step]) - len(lines[step].lstrip())]
    lines.insert(step + 1, f"{indent}_hold()")
    last = max(n for n, line in enumerate(lines) if line.startswith(("import ", "from ")))
    copy.write_text("\n".join([*lines[: last + 1], HOLD, *lines[last + 1 :]]) + "\n")
    return copy


def wait_until_quiet() -> None:
    """Wait until other processes keep less than QUIET of a core busy, or PATIENCE is over."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        before = load()
        time.sleep(1.0)
        if others(before, load()) < QUIET:
            return


def run(script: Path, result: Path) -> None:
    """Let the doctor write findings.json of a script."""
    out = ["--out", str(result.with_suffix(""))]
    options = ["--experiments", "0", "--time", "10", "--json", str(result), *out]
    command = [sys.executable, "-m", "hotloop", "doctor", *options, str(script)]
    done = subprocess.run(
        [*command, "--out", str(result.parent / "out")], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr


def verdicts(folder: Path, name: str, rounds: int, kind: str, baselines: int) -> list[dict]:
    """Return one comparison for each round that has enough runs before it."""
    found = []
    for n in range(baselines, rounds):
        before = [read_baseline(folder / f"{name}-{k}-plain.json") for k in range(n - baselines, n)]
        now = read_baseline(folder / f"{name}-{n}-{kind}.json")
        result = compare_runs(before, now, parse_conditions(CONDITIONS, FIGURES))
        step = result.figures[0]
        found.append({
            "script": name,
            "kind": kind,
            "baselines": baselines,
            "verdicts": {figure.name: figure.verdict for figure in result.figures},
            "conditions": {one.condition: one.outcome for one in result.conditions},
            "ratio": step.change.ratio,
            "interval": step.change.interval,
            "other_cores": [run.facts.other_cores for run in (*before, now)],
            "new": [one.rule for one in result.new if one.severity != "note"],
        })  # fmt: skip
    return found


def main(words: list[str]) -> None:
    """Run what is missing, compare, print and write."""
    folder, rounds = Path(words[0]).absolute(), int(words[1]) if len(words) > 1 else 6
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(rounds):
        for name in SCRIPTS:
            script = ROOT / "examples" / "slow" / name / "train.py"
            for kind in ("plain", "slower"):
                result = folder / f"{name}-{n}-{kind}.json"
                if not result.exists():
                    wait_until_quiet()
                    run(script if kind == "plain" else planted(script, folder), result)
    rows = [
        row
        for name in SCRIPTS
        for kind in ("plain", "slower")
        for baselines in (1, 3)
        for row in verdicts(folder, name, rounds, kind, baselines)
    ]
    for kind in ("plain", "slower"):
        for baselines in (1, 3):
            mine = [r for r in rows if (r["kind"], r["baselines"]) == (kind, baselines)]
            print(f"{kind}, baselines {baselines}: n={len(mine)}")
            for what in ("verdicts", "conditions"):
                for name in mine[0][what] if mine else ():
                    print(f"  {name}: {dict(Counter(row[what][name] for row in mine))}")
    write_json(RESULT, {"schema": 1, "hardware": detect().to_json(), "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
