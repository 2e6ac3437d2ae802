"""Does the doctor find a GPU's faults, and no others? Runs it on the scripts of examples/gpu.

    python -m benchmarks.gpu.doctor --json FILE [NAME ...] [--short]

A script marks each line of its fault by `# FAULT: RULE ...`, or one by `# FAULT ANYWHERE: RULE ...`
if its remedy has no line; one without a mark is innocent. "right" asks for the first finding,
"named" for any finding of the rule at the line. FILE is written anew after each script; the folder
"cases" beside it keeps the observations.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import EXAMPLES, Example, observed, verdict
from benchmarks.field.__main__ import said
from benchmarks.gpu.part import Deadline, Writer, options
from hotloop.core.storage.files import make_folder, write_json
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.finding import Diagnosis

SECONDS, SHORT_S = 6.0, 5.0  # of training that is observed: 32 scripts have to fit into a call
MARK = re.compile(r"# FAULT( ANYWHERE)?: (.+)")
# Not met on a GPU yet come first: what a call's time does not suffice for is at the end.
MET = ("float32_pictures", "float32_products", "many_small_kernels", "fed_pictures")


def marked(script: Path) -> Example:
    """Return a script with the cause that its marks state."""
    lines, rules = list[int](), dict[str, None]()
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if mark := MARK.search(line):
            lines += [] if mark[1] else [number]
            rules |= dict.fromkeys(mark[2].split())
    cause = {"file": script.name, "lines": lines, "rules": [*rules]} if rules else None
    return Example(name=script.stem, script=script, cause=cause)


def named(example: Example, diagnosis: Diagnosis) -> str | None:
    """Return the first finding that names the cause, with its severity; None if there is none."""
    if example.cause is None:
        return None
    for finding in diagnosis.findings:
        places = {(place.file, place.line) for place in finding.places}
        is_there = not example.places or bool(places & example.places)
        if is_there and finding.rule.split()[0] in example.cause["rules"]:
            return f"{finding.rule} ({finding.severity})"
    return None


def met(example: Example, cases: Path, *, seconds: float) -> dict[str, Any]:
    """Run the doctor on a script; return what it said and whether that is right."""
    try:
        case, took = observed(example, seconds)
    except subprocess.TimeoutExpired as error:
        case, took = f"passed its limit of {error.timeout:.0f} s", error.timeout
    expected = {} if example.cause is None else dict(example.cause)
    row: dict[str, Any] = {"expected": expected.get("rules", []), "lines": expected.get("lines")}
    row["seconds"] = round(took, 1)
    if isinstance(case, str):
        return row | {"right": False, "named": None, "failed": case}
    write_json(cases / f"{example.name}.json", case.to_json())
    diagnosis = diagnose(case)
    row |= {"named": named(example, diagnosis), "own_time": case.own_time, **said(case)}
    if case.step_time is None:
        return row | {"right": False, "step": None, "failed": "no steps were seen"}
    right = verdict(example, diagnosis)[0]
    return row | {"step": case.step_time.median, "right": right}


def main() -> int:
    """Meet the scripts and print a line each; 1 if one could not be observed."""
    chosen = options(__doc__, names="parts of names; default: all")
    out, failed, deadline, most = Writer(chosen.json), 0, Deadline(chosen.seconds), 0.0
    cases = make_folder(chosen.json.parent / "cases")
    scripts = sorted((EXAMPLES / "gpu").glob("*.py"), key=lambda one: (one.stem in MET, one.stem))
    for script in scripts:
        if chosen.names and not any(name in script.stem for name in chosen.names):
            continue
        if deadline.left() < most:  # than the longest so far: it would be cut off
            out.put(script.stem, {"not begun": "the time of this part was over"})
            continue
        one = met(marked(script), cases, seconds=SHORT_S if chosen.short else SECONDS)
        failed += "failed" in one
        most = max(most, one["seconds"])
        out.put(script.stem, one)
        told = one.get("failed") or one["named"] or one["verdict"]
        print(f"  {'right' if one['right'] else 'WRONG':<6}{script.stem:<22}{told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
