"""What `hotloop tune` makes of each slow script, and that it leaves the clean ones alone.

    python -m benchmarks.tuned [NAME ...] [--budget 5m]

Where a technique removes the cause, the script under the plan that was found then runs beside
fixed.py, blocks of the same steps by turns: it must take at most 10 % longer. Of every other script
tune must name the cause's file and line as an edit, or keep a plan that is proved; of a clean one
it must keep nothing. Losses and first gradients agree in whatever is kept, or it is not kept.
Rows of other scripts and of other machines stay in the result, benchmarks/results/tuned-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import Example, examples
from benchmarks.table import RESULTS
from hotloop.core.storage.files import write_json
from hotloop.core.trial import compare
from hotloop.core.tuning_result import Tuned
from hotloop.machine.detect import detect
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.races import keeping_memory
from hotloop.tuning.script_target import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

REMOVES = {  # class of the cause -> technique that removes it
    "slow_getitem": "sample-cache",
    "pad_to_max": "dynamic-padding",
    "overthreaded_cpu": "threads",
}
WITHIN = 1.10  # times fixed.py's step


def tuned(example: Example, budget: str, folder: Path) -> Tuned | str:
    """Run tune as a user would; return its result, or what failed."""
    out = folder / "tuned"
    command = [sys.executable, "-m", "hotloop", "tune", "-q", "--budget", budget]
    done = subprocess.run(
        [*command, "--out", str(out), str(example.script), "--out", str(folder / "out")],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    if done.returncode:
        return f"ended with {done.returncode}: {done.stderr[-1000:]}"
    return Tuned.from_json(json.loads((out / "trials.json").read_text()))


def _kind(example: Example) -> str:
    return str(example.cause["class"]) if example.cause else "clean"


def _removes(example: Example, found: Tuned) -> bool:
    """Whether the plan has the technique that removes the cause."""
    wanted = REMOVES.get(_kind(example))
    return wanted is not None and found.plan.choice(wanted) is not None


def beside_fixed(example: Example, found: Tuned, folder: Path) -> dict[str, Any] | None:
    """Run the script under its plan beside its mended twin; None where it has none."""
    twin = example.script.with_name("fixed.py")
    if not twin.exists():
        return None
    words = ("--out", str(folder / "out"))
    scripts = [
        Script(command=(str(script), *words), cwd=folder, detect=lambda: detect("cpu"))
        for script in (twin, example.script)
    ]
    later = 2 if found.plan.choice("sample-cache") is not None else 0
    fixed = scripts[0].entry(found.baseline, epochs=later, needs=())
    under = scripts[1].entry(found.plan, epochs=later, needs=())
    steps = None if found.whole is None else found.whole.steps  # it must not end before the rounds
    base, tried = race(keeping_memory([fixed, under]), RaceLength(total=steps))
    seen = compare(tried, base)
    return {
        "verdict": seen.verdict,
        "ratio": seen.ratio,
        "interval": seen.interval,
        "why": seen.why,
    }


def judged(example: Example, found: Tuned, twin: dict[str, Any] | None) -> tuple[bool, str]:
    """Return whether tune was right, and why."""
    named = {(place.file, place.line) for edit in found.edits for place in edit.places}
    if example.cause is None:
        return found.plan == found.baseline, found.said
    if _removes(example, found) and found.is_proved:
        if twin is None:
            return True, f"{found.said}; it has no mended twin"
        ratio, interval = twin["ratio"], twin["interval"]
        if interval is None:
            return False, f"{found.said}; beside fixed.py: {twin['why']}"
        said = f"a step takes {ratio:.2f} of fixed.py's ({interval[0]:.2f}-{interval[1]:.2f})"
        return ratio <= WITHIN, f"{found.said}; {said}"
    places = {(Path(file).name, line) for file, line in named}
    right = any((Path(file).name, line) in places for file, line in example.places)
    harmless = found.plan == found.baseline or found.is_proved
    missed = _kind(example) in REMOVES and not _refused(example, found)
    return right and harmless and not missed, f"{found.said}; cause named as an edit: {right}"


def _refused(example: Example, found: Tuned) -> bool:
    """Whether the technique that removes such a cause cannot be put into this script.

    It said why, or it computes other losses there: tune must leave it out.
    """
    rows = [row for row in found.rows if row.name.startswith(REMOVES[_kind(example)])]
    return bool(rows) and all(
        row.decision == "refused" or (row.parity is not None and row.parity.kept is False)
        for row in rows
    )


def _keep(rows: Sequence[dict[str, Any]], budget: str) -> None:
    """Write the rows beside those of other scripts and of other machines."""
    path = RESULTS / "tuned-cpu.json"
    head = json.loads(json.dumps({"hardware": detect("cpu").to_json(), "budget": budget}))
    machines = json.loads(path.read_text())["machines"] if path.exists() else []
    here = [entry for entry in machines if all(entry[key] == head[key] for key in head)]
    others = [entry for entry in machines if entry not in here]
    known = [row for entry in here for row in entry["scripts"]]
    by_name = {row["name"]: row for row in (*known, *rows)}
    here = [{**head, "scripts": [by_name[name] for name in sorted(by_name)]}]
    write_json(path, {"schema": 1, "machines": [*others, *here]})


def main(argv: Sequence[str] | None = None) -> int:
    """Tune the examples; 1 when one was not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--budget", default="5m")
    options = parser.parse_args(argv)
    chosen = [e for e in examples() if e.name.startswith(("slow", "hf", "light", "acc", "clean"))]
    if options.names:
        if unknown := set(options.names) - {example.name for example in chosen}:
            names = ", ".join(example.name for example in chosen)
            parser.error(f"no example {', '.join(sorted(unknown))}; there are {names}")
        chosen = sorted(
            (e for e in chosen if e.name in options.names),
            key=lambda e: options.names.index(e.name),
        )
    rows: list[dict[str, Any]] = []
    for at, example in enumerate(chosen):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            found = tuned(example, options.budget, Path(scratch))
            if isinstance(found, str):
                right, said, row = False, found, {}
            else:
                is_mended = found.is_proved and _removes(example, found)
                twin = beside_fixed(example, found, Path(scratch)) if is_mended else None
                right, said = judged(example, found, twin)
                row = {
                    "plan": found.plan.to_json(),
                    "proof": None if found.proof is None else found.proof.why,
                    "stopped": found.stopped,
                    "edits": [edit.rule for edit in found.edits],
                    "beside_fixed": twin,
                    "tried": [[r.name, r.decision, r.why] for r in found.rows],
                }
        seconds = time.monotonic() - began
        told = {"right": right, "said": said, "seconds": seconds, "load": os.getloadavg()[1]}
        rows.append({"name": example.name, **told, **row})
        mark = "right" if right else "WRONG"
        print(f"{at + 1}/{len(chosen)} {example.name}: {mark}, {seconds:.0f} s: {said}", flush=True)
        _keep(rows, options.budget)
    wrong = [row["name"] for row in rows if not row["right"]]
    print(f"{len(rows) - len(wrong)} of {len(rows)} right; wrong: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
