"""Runs the doctor on scripts with a planted fault and on their innocent twins, and counts.

    python -m benchmarks.claims FOLDER [NAME ...]

FOLDER holds a folder with train.py for each script and truth/NAME.json, written by an author who
did not know the doctor ("fault" is null for an innocent script). A true claim is said if the
verdict or a finding above a note names a line within three of its lines; an innocent script is
accused if any is above a note. Where a fault of hotloop's own ended the observation, silence is
not right. Writes benchmarks/results/claims.json after each script.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import doctored
from benchmarks.table import RESULTS
from hotloop.core.case.case import OWN_FAULT
from hotloop.report import sentences
from hotloop.report.verdict import verdict_of
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import Finding

RESULT = RESULTS / "claims.json"
NEAR = 3  # lines


def judged(script: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """Run the doctor on a script; return one row of the table."""
    case, seconds = doctored(script, cwd=script.parent)
    diagnosis = diagnose(case)
    verdict = verdict_of(case, diagnosis)
    loud = [finding for finding in diagnosis.findings if sentences.is_loud(finding)]
    lines = set[int | None]().union(*(_lines(finding) for finding in loud), _row_lines(case))
    hit = any(
        line is not None and abs(line - true) <= NEAR for line in lines for true in truth["lines"]
    )
    says = verdict.severity in ("warn", "critical")
    has_failed = any(OWN_FAULT in text for text in case.not_checked)
    return {
        "name": truth["id"],
        "topic": truth["pair_topic"],
        "true": truth["fault"] is not None,
        "right": (says and hit) if truth["fault"] is not None else not (says or loud or has_failed),
        "verdict": verdict.said,
        "severity": verdict.severity,
        "loud": [[f.rule, f.known, f.share, [p.line for p in f.places][:4]] for f in loud],
        "notes": [f.rule for f in diagnosis.findings if not sentences.is_loud(f)],
        "refuted": [f.rule for f in diagnosis.refuted],
        "experiments": sentences.experiments(case),
        "gains": {f"{one.row or one.name}, {one.name}": one.gain for one in case.experiments},
        "truth": [truth["lines"], truth.get("gain"), truth["fault"] or truth["innocent_because"]],
        "seconds": round(seconds, 1),
        "plain": truth.get("run", {}).get("wall"),
    }


def _lines(finding: Finding) -> set[int | None]:
    return {place.line for place in finding.places}


def _row_lines(case: Case) -> set[int | None]:
    """Return the lines of the rows that may lead the verdict."""
    places = [place for one in case.experiments if (one.gain or 0) > 1.1 for place in one.places]
    rows = case.ledger.avoidable[:1] if case.ledger is not None else ()
    return {place.line for place in [*places, *(row.place for row in rows if row.place)]}


def main() -> None:
    """Judge the scripts, and write each result when it is known."""
    folder, names = Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    results = []
    for file in sorted((folder / "truth").glob("*.json")):
        truth = json.loads(file.read_text())
        script = folder / truth["id"] / truth.get("file", "train.py")
        if names and truth["id"] not in names:
            continue
        results.append(judged(script.with_name("train.py"), truth))
        print(json.dumps(results[-1]), flush=True)
        RESULT.write_text(json.dumps(results, indent=1) + "\n")
    for kind in (True, False):
        of_kind = [one["right"] for one in results if one["true"] is kind]
        print(f"{'true' if kind else 'innocent'}: {sum(of_kind)} of {len(of_kind)} right")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
