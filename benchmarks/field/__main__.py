"""Runs public scripts plain and under the doctor, and sets what it says beside a truth.

    python -m benchmarks.field WAVE CHECKOUTS [NAME ...] [--python P] [--record | --again]

benchmarks/field/WAVE.json lists the scripts; CHECKOUTS holds the repositories, with the stand-in
data in place (docs/field.md says how). Each script runs plain, under `hotloop doctor --full` and
plain again, to compare what it does, and then as a user would start it, `hotloop doctor`, for the
verdict; last twice under each `hotloop run --with` that a finding proposes, to compare its seconds.
truth/NAME.json was written before, by someone who does not run the doctor. Whether a verdict is
right is judged by a reader; "near" says that it names a line within three of a true one. Writes
benchmarks/results/field-WAVE.json after each script. Code of others is never committed.

`--record` keeps each case of `hotloop doctor` under tests/golden/field, without its sources: the
suite judges it again. `--again` runs nothing but that one call, of scripts that were met before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.behaviour import Outcome, outcome
from benchmarks.diagnosed import keep
from benchmarks.table import RESULTS
from hotloop.core import codec
from hotloop.core.case.case import Case
from hotloop.report import sentences
from hotloop.report.verdict import verdict_of
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.finding import Finding, SourceLocation

HERE = Path(__file__).parent
NEAR = 3  # lines
KEPT = 30  # entries of each list of a recorded case
KEPT_CASES = Path(__file__).parents[2] / "tests" / "golden" / "field"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A public script, and how to start it."""

    name: str
    repository: str
    commit: str
    licence: str
    kind: str
    checkout: str  # folder below CHECKOUTS
    folder: str = "."  # below the checkout: where it is started
    command: tuple[str, ...]  # arguments of `python`
    data: str  # how the stand-in data are made
    path: tuple[str, ...] = ()  # entries of PYTHONPATH, relative to the folder
    limit: float = 300  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Scripts that are met before anything is mended."""

    rule: str  # by which they were drawn
    scripts: tuple[Script, ...]


def contact(
    script: Script, checkouts: Path, python: str, *, again: bool, records: bool
) -> dict[str, Any]:
    """Return one row: the behaviour, unless it was met before, and the verdict beside the truth."""
    try:
        return _contact(script, checkouts, python, again=again, records=records)
    except subprocess.TimeoutExpired as error:
        launcher = " ".join(map(str, error.cmd[1:5]))
        return {"name": script.name, "crash": f"{launcher} ran longer than {script.limit:.0f} s"}


def _contact(
    script: Script, checkouts: Path, python: str, *, again: bool, records: bool
) -> dict[str, Any]:
    folder = checkouts / script.checkout
    path = os.pathsep.join([*script.path, *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*launcher: str) -> Any:
        command = (python, *launcher, *script.command)
        env = {"PYTHONPATH": path}
        return outcome(command, folder, below=script.folder, limit=script.limit, env=env)

    with tempfile.TemporaryDirectory() as kept:
        doctor = ("-m", "hotloop", "doctor", "--out")
        row: dict[str, Any] = {"name": script.name}
        runs = {}
        if not again:
            runs |= {"plain": run(), "full": run(*doctor, f"{kept}/full", "--full"), "again": run()}
            by_itself = runs["plain"].differences(runs["again"])
            changed = runs["plain"].differences(runs["full"])
            row["varies by itself"] = by_itself[:20]
            row["changed"] = [one for one in changed if one not in by_itself]
        runs["doctor"] = run(*doctor, f"{kept}/short")
        row["seconds"] = {name: round(one.seconds, 1) for name, one in runs.items()}
        row["CPU seconds"] = {name: round(one.cpu, 1) for name, one in runs.items()}
        row["exit codes"] = {name: one.code for name, one in runs.items()}
        read = Path(kept, "short", "case.json")
        if not read.exists():
            return row | {"crash": runs["doctor"].stderr[-3000:]}
        case = Case.from_json(json.loads(read.read_text()))
        row |= said(case)
        if records:
            # A checkout is copied into a folder of its own before each run.
            stands = {str(Path(python).parents[1]): "/packages", r'/tmp/[^/"]+': "/field"}
            keep(KEPT_CASES / f"{script.name}.json", replace(case, sources={}), KEPT, stands)
        row["remedies"] = []
        remedies = {} if again else _remedies(case)
        plain = [runs["plain"], runs["again"]] if remedies else []
        bare = [run("-m", "hotloop", "run") for _ in plain]  # it costs its start and its watching
        for use, finding in remedies.items():
            made = [run("-m", "hotloop", "run", "--no-canary", "--with", use) for _ in plain]
            gain = {"of": finding.rule, "with": use, "exit code": made[0].code}
            gain |= {"says": finding.measured, "run": _ratio(plain, made, "seconds")}
            gain["run in CPU seconds"] = _ratio(plain, made, "cpu")
            gain["beside hotloop run alone, in CPU seconds"] = _ratio(bare, made, "cpu")
            row["remedies"].append(gain)
    truth = json.loads((HERE / "truth" / f"{script.name}.json").read_text())
    faults = truth["faults"] if isinstance(truth["faults"], list) else []
    true = [fault for fault in [truth["cost"], *faults] if fault]
    row["truth"] = [[one["what"], one["file"], one["lines"], one.get("gain")] for one in true]
    row["near"] = any(_is_near(place, one) for place in row["places"] for one in true)
    return row


def said(case: Case) -> dict[str, Any]:
    """Return what the doctor says about a case."""
    diagnosis = diagnose(case)
    verdict = verdict_of(case, diagnosis)
    loud = [finding for finding in diagnosis.findings if sentences.is_loud(finding)]
    leading = [place for one in case.experiments if (one.gain or 0) > 1.1 for place in one.places]
    places = [*(place for finding in loud for place in finding.places), *leading]
    return {
        "verdict": verdict.said,
        "severity": verdict.severity,
        "also": verdict.also,
        "loud": [_finding(finding) for finding in loud],
        "notes": [f"{f.rule}: {f.claim}" for f in diagnosis.findings if f not in loud],
        "refuted": [finding.rule for finding in diagnosis.refuted],
        "experiments": sentences.experiments(case),
        "not checked": list(case.not_checked),
        "places": [[Path(place.file).name, place.line] for place in places],
    }


def _remedies(case: Case) -> dict[str, Finding]:
    """Return the techniques that findings above a note propose for `hotloop run --with`."""
    loud = [finding for finding in diagnose(case).findings if sentences.is_loud(finding)]
    pairs = [(remedy.use, finding) for finding in reversed(loud) for remedy in finding.remedies]
    return {use: finding for use, finding in pairs if use is not None}


def _ratio(plain: Sequence[Outcome], made: Sequence[Outcome], what: str) -> float:
    """Return how many times as fast the remedy is, with the start of `hotloop run` in it."""
    return round(sum(getattr(one, what) for one in plain) / sum(getattr(b, what) for b in made), 3)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "known": finding.known,
        "share": finding.share,
        "claim": finding.claim,
        "measured": finding.measured,
        "places": [_place(place) for place in finding.places[:4]],
    }


def _place(place: SourceLocation) -> str:
    return f"{Path(place.file).name}:{place.line}"


def _is_near(place: Sequence[Any], one: dict[str, Any]) -> bool:
    file, line = place
    first, last = min(one["lines"]), max(one["lines"])
    return (
        line is not None and file == Path(one["file"]).name and first - NEAR <= line <= last + NEAR
    )


def main() -> None:
    """Meet the scripts, and write each result when it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wave")
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable, help="with the scripts' packages")
    parser.add_argument("--record", action="store_true", help="keep the cases for the suite")
    parser.add_argument("--again", action="store_true", help="the doctor alone: no first contact")
    options = parser.parse_args()
    wave = codec.from_json(Wave, json.loads((HERE / f"{options.wave}.json").read_text()))
    names = options.names or [script.name for script in wave.scripts]
    blind = [name for name in names if not (HERE / "truth" / f"{name}.json").exists()]
    if blind:
        parser.error(f"the truth comes first: write truth/NAME.json for {', '.join(blind)}")
    again, records = options.again, options.record
    result = RESULTS / f"field-{options.wave}{'-again' if again else ''}.json"
    known = json.loads(result.read_text()) if result.exists() else []
    rows = {row["name"]: row for row in known if row["name"] not in names}
    for script in wave.scripts:
        if script.name not in names:
            continue
        where = options.checkouts.resolve()
        row = contact(script, where, options.python, again=again, records=records)
        rows[script.name] = row
        print(json.dumps(row, indent=1), flush=True)
        met = [rows[one.name] for one in wave.scripts if one.name in rows]
        result.write_text(json.dumps(met, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
